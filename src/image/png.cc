#include <png.h>

#include <csetjmp>
#include <cstring>

#include "base/strings.h"
#include "image/codecs.h"

namespace downhaul {
namespace {

/// What libpng's callbacks see. libpng ends a failed call by a jump over its own frames; no object
/// with a destructor lives in the functions that it jumps out of.
struct PngContext {
  const uint8_t* next = nullptr;
  size_t left = 0;
  std::vector<uint8_t>* out = nullptr;
  char message[160] = {};
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* context = static_cast<PngContext*>(png_get_error_ptr(png));
  std::strncpy(context->message, message, sizeof(context->message) - 1);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep data, size_t size) {
  auto* context = static_cast<PngContext*>(png_get_io_ptr(png));
  if (size > context->left) png_error(png, "the file ends inside the picture");
  std::memcpy(data, context->next, size);
  context->next += size;
  context->left -= size;
}

void on_write(png_structp png, png_bytep data, size_t size) {
  auto* context = static_cast<PngContext*>(png_get_io_ptr(png));
  context->out->insert(context->out->end(), data, data + size);
}
void on_flush(png_structp) {}

struct Header {
  uint32_t width = 0;
  uint32_t height = 0;
  int channels = 0;
};

/// Reads up to the pixels and asks for 8-bit RGB or RGBA.
bool read_header(png_structp png, png_infop info, Header* header, int64_t max_pixels) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;  // NOLINT: libpng's way to fail
  // A picture within the limit may be one row, or one column. Ancillary chunks are small.
  const auto limit = static_cast<uint32_t>(max_pixels < 0x7fffffff ? max_pixels : 0x7fffffff);
  png_set_user_limits(png, limit, limit);
  png_set_chunk_malloc_max(png, 16u << 20);
  png_read_info(png, info);
  const int type = png_get_color_type(png, info);
  if (png_get_bit_depth(png, info) == 16) png_set_scale_16(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if ((type & PNG_COLOR_MASK_COLOR) == 0) {
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_gray_to_rgb(png);
  }
  if (png_get_valid(png, info, PNG_INFO_tRNS) != 0) png_set_tRNS_to_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  header->width = png_get_image_width(png, info);
  header->height = png_get_image_height(png, info);
  header->channels = png_get_channels(png, info);
  return true;
}

bool read_rows(png_structp png, png_infop info, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;  // NOLINT
  png_read_image(png, rows);
  png_read_end(png, info);
  return true;
}

bool write_rows(png_structp png, png_infop info, const Header& header, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;  // NOLINT
  const int type = header.channels == 1   ? PNG_COLOR_TYPE_GRAY
                   : header.channels == 3 ? PNG_COLOR_TYPE_RGB
                                          : PNG_COLOR_TYPE_RGBA;
  png_set_IHDR(png, info, header.width, header.height, 8, type, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  png_write_image(png, rows);
  png_write_end(png, info);
  return true;
}

/// Owns libpng's state of one picture.
struct Reader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  explicit Reader(PngContext* context) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, context, on_error, on_warning);
    if (png == nullptr) return;
    png_set_read_fn(png, context, on_read);
    info = png_create_info_struct(png);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

struct Writer {
  png_structp png = nullptr;
  png_infop info = nullptr;
  explicit Writer(PngContext* context) {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, context, on_error, on_warning);
    if (png == nullptr) return;
    png_set_write_fn(png, context, on_write, on_flush);
    info = png_create_info_struct(png);
  }
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
};

}  // namespace

Result<image::Decoded> image::decode_png(Bytes bytes, const ImageLimits& limits) {
  // IHDR comes first, so the size can be judged before anything is set up for it.
  constexpr size_t kSizeOffset = 16;
  if (bytes.size() < kSizeOffset + 8) {
    return invalid_file("PNG: the file ends inside the header");
  }
  const auto number = [&](size_t at) { return png_get_uint_32(bytes.data() + at); };
  const uint64_t width = number(kSizeOffset);
  const uint64_t height = number(kSizeOffset + 4);
  DH_TRY(check_size(width, height, limits));
  // Deflate's longest copy is 258 bytes for 2 bits. Depth 1 and one channel is the least there is.
  constexpr uint64_t kDeflateRatio = 1032;
  DH_TRY(check_compression(height * ((width + 7) / 8 + 1), kDeflateRatio, bytes.size()));
  PngContext context{.next = bytes.data(), .left = bytes.size()};
  const Reader reader(&context);
  if (reader.png == nullptr || reader.info == nullptr) return io_error("PNG: out of memory");
  Header header;
  if (!read_header(reader.png, reader.info, &header, limits.max_pixels)) {
    return invalid_file(cat("PNG: ", printable(context.message)));
  }
  Decoded decoded;
  decoded.image = Image(header.width, header.height, header.channels);
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < decoded.image.height; ++y) rows.push_back(decoded.image.row(y));
  if (!read_rows(reader.png, reader.info, rows.data())) {
    return invalid_file(cat("PNG: ", printable(context.message)));
  }
  png_uint_32 size = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(reader.png, reader.info, &size, &exif) != 0) {
    decoded.orientation = exif_orientation({exif, size});
  }
  return decoded;
}

Result<std::vector<uint8_t>> encode_png(const Image& image) {
  DH_CHECK(image.channels == 1 || image.channels == 3 || image.channels == 4);
  std::vector<uint8_t> out;
  PngContext context{.out = &out};
  const Writer writer(&context);
  if (writer.png == nullptr || writer.info == nullptr) return io_error("PNG: out of memory");
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < image.height; ++y) {
    rows.push_back(const_cast<png_bytep>(image.row(y)));  // NOLINT: libpng only reads them
  }
  const Header header{static_cast<uint32_t>(image.width), static_cast<uint32_t>(image.height),
                      image.channels};
  if (!write_rows(writer.png, writer.info, header, rows.data())) {
    return invalid_argument(cat("PNG: ", printable(context.message)));
  }
  return out;
}

}  // namespace downhaul
