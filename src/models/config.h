#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/json/json.h"

namespace downhaul::models {

/// A number of the configuration with its key, for messages.
struct Setting {
  std::string key;
  int64_t value = 0;
};

/// config.json with typed access. A key may be missing or null: then the default of the class that
/// reads it holds. The first error sticks; later calls return defaults.
class Config {
 public:
  Config() = default;
  /// Errors: kNotFound, kInvalidFile with the path.
  static Result<Config> read(const std::string& path);
  static Result<Config> parse(std::string_view text, const std::string& path);

  /// The first of `keys` that is present; must lie within [low, high].
  Setting integer(std::initializer_list<std::string_view> keys, int64_t default_value, int64_t low,
                  int64_t high);
  /// A size: 1 to 2^31 - 1.
  Setting size(std::initializer_list<std::string_view> keys, int64_t default_value);
  /// A number of layers: 1 to 4096.
  Setting layers(std::initializer_list<std::string_view> keys, int64_t default_value);
  double positive_real(std::string_view key, double default_value);
  bool flag(std::string_view key, bool default_value);
  std::string text(std::string_view key, std::string_view default_value);
  std::vector<std::string> texts(std::string_view key);
  /// `part` must divide `whole`.
  void require_divides(const Setting& part, const Setting& whole);
  /// id2label in order of the ids, which must be 0, 1, … without holes; empty when absent.
  std::vector<std::string> labels();
  /// How many outputs a classifier has: the labels, num_labels, or 2.
  Setting num_labels();

  bool has(std::string_view key) const;
  void fail(std::string_view message);
  const Status& status() const { return status_; }
  const std::string& path() const { return path_; }

 private:
  const JsonValue* find(std::string_view key) const;
  std::string path_;
  JsonValue document_;
  Status status_;
};

}  // namespace downhaul::models
