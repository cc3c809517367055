#pragma once

#include <memory>

#include "cli/command_line.h"

namespace downhaul {

std::unique_ptr<Verb> make_bench();
std::unique_ptr<Verb> make_bundle();
std::unique_ptr<Verb> make_check();
std::unique_ptr<Verb> make_classify();
std::unique_ptr<Verb> make_compare();
std::unique_ptr<Verb> make_completion();
std::unique_ptr<Verb> make_generate();
std::unique_ptr<Verb> make_inspect();
std::unique_ptr<Verb> make_lower();
std::unique_ptr<Verb> make_run();
std::unique_ptr<Verb> make_segment();
std::unique_ptr<Verb> make_serve();
std::unique_ptr<Verb> make_tokenize();
std::unique_ptr<Verb> make_fill_mask();
std::unique_ptr<Verb> make_answer();
std::unique_ptr<Verb> make_tag();
std::unique_ptr<Verb> make_choose();
std::unique_ptr<Verb> make_embed();
std::unique_ptr<Verb> make_similarity();

}  // namespace downhaul
