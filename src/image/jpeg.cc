#include <cstdio>  // jpeglib.h needs it

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>

#include "base/strings.h"
#include "image/codecs.h"

namespace downhaul {
namespace {

/// What libjpeg's callbacks see. As with PNG, no object with a destructor lives in the functions
/// that a failed call jumps out of.
struct JpegContext {
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = {};
};

[[noreturn]] void on_error(j_common_ptr jpeg) {
  auto* context = static_cast<JpegContext*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, context->message);
  std::longjmp(context->jump, 1);  // NOLINT: libjpeg's way to fail
}

/// libjpeg fills what is missing or damaged with grey and warns: such a picture is refused here.
/// Bytes between segments and the like hurt nobody and stay unnoticed.
void on_message(j_common_ptr jpeg, int level) {
  const int code = jpeg->err->msg_code;
  if (level < 0 &&
      (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE)) {
    on_error(jpeg);
  }
}

/// A progressive file may ask for passes over the whole picture without end.
void on_progress(j_common_ptr jpeg) {
  constexpr int kMaxScans = 500;
  if (jpeg->is_decompressor == 0) return;
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > kMaxScans) {
    auto* context = static_cast<JpegContext*>(jpeg->client_data);
    std::strncpy(context->message, "more than 500 scans", sizeof(context->message) - 1);
    std::longjmp(context->jump, 1);  // NOLINT
  }
}

void set_up(JpegContext* context) {
  jpeg_std_error(&context->errors);
  context->errors.error_exit = on_error;
  context->errors.emit_message = on_message;
  context->progress.progress_monitor = on_progress;
}

struct Header {
  uint32_t width = 0;
  uint32_t height = 0;
  int channels = 0;
  bool inverted =
      false;  ///< CMYK samples of programs that mark their files (Adobe) are complements
  const uint8_t* exif = nullptr;
  size_t exif_size = 0;
};

bool read_header(jpeg_decompress_struct* jpeg, JpegContext* context, Bytes bytes, Header* header) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  if (setjmp(context->jump) != 0) return false;  // NOLINT
  jpeg_create_decompress(jpeg);
  jpeg->progress = &context->progress;
  jpeg_mem_src(jpeg, bytes.data(), static_cast<unsigned long>(bytes.size()));  // NOLINT
  jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(jpeg, TRUE);
  const bool four = jpeg->num_components == 4;
  jpeg->out_color_space = four ? JCS_CMYK : JCS_RGB;
  header->width = jpeg->image_width;
  header->height = jpeg->image_height;
  header->channels = four ? 4 : 3;
  header->inverted = jpeg->saw_Adobe_marker != 0;
  for (const jpeg_marker_struct* m = jpeg->marker_list; m != nullptr; m = m->next) {
    if (m->data_length > kExif.size() && std::memcmp(m->data, kExif.data(), kExif.size()) == 0) {
      header->exif = m->data + kExif.size();
      header->exif_size = m->data_length - kExif.size();
      break;
    }
  }
  return true;
}

bool read_rows(jpeg_decompress_struct* jpeg, JpegContext* context, uint8_t* pixels, size_t stride) {
  if (setjmp(context->jump) != 0) return false;  // NOLINT
  jpeg_start_decompress(jpeg);
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW row = pixels + jpeg->output_scanline * stride;
    jpeg_read_scanlines(jpeg, &row, 1);
  }
  jpeg_finish_decompress(jpeg);
  return true;
}

bool write_rows(jpeg_compress_struct* jpeg, JpegContext* context, const Image& image, int quality,
                unsigned char** out, unsigned long* size) {  // NOLINT: libjpeg's type
  if (setjmp(context->jump) != 0) return false;              // NOLINT
  jpeg_create_compress(jpeg);
  jpeg_mem_dest(jpeg, out, size);
  jpeg->image_width = static_cast<JDIMENSION>(image.width);
  jpeg->image_height = static_cast<JDIMENSION>(image.height);
  jpeg->input_components = image.channels;
  jpeg->in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(jpeg);
  jpeg_set_quality(jpeg, quality, TRUE);
  jpeg_start_compress(jpeg, TRUE);
  while (jpeg->next_scanline < jpeg->image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.row(jpeg->next_scanline));  // NOLINT: only read
    jpeg_write_scanlines(jpeg, &row, 1);
  }
  jpeg_finish_compress(jpeg);
  return true;
}

/// Owns libjpeg's state of one picture; made before the first call that can fail.
struct Decompressor {
  JpegContext context;
  jpeg_decompress_struct jpeg{};
  Decompressor() {
    set_up(&context);
    jpeg.err = &context.errors;
    jpeg.client_data = &context;
  }
  ~Decompressor() { jpeg_destroy_decompress(&jpeg); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
};

struct Compressor {
  JpegContext context;
  jpeg_compress_struct jpeg{};
  unsigned char* out = nullptr;
  unsigned long size = 0;  // NOLINT
  Compressor() {
    set_up(&context);
    jpeg.err = &context.errors;
    jpeg.client_data = &context;
  }
  ~Compressor() {
    jpeg_destroy_compress(&jpeg);
    std::free(out);  // NOLINT: libjpeg allocated it so
  }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
};

/// Ink to light: each colour loses the share that black covers. Source: the usual conversion
/// without colour profiles, as Pillow's.
Image rgb_of_cmyk(const Image& cmyk, bool inverted) {
  Image rgb(cmyk.width, cmyk.height, 3);
  const uint8_t* in = cmyk.pixels.data();
  uint8_t* out = rgb.pixels.data();
  for (int64_t i = 0, n = cmyk.width * cmyk.height; i < n; ++i, in += 4, out += 3) {
    const int light = inverted ? in[3] : 255 - in[3];
    for (int c = 0; c < 3; ++c) {
      const int ink = inverted ? 255 - in[c] : in[c];
      const int covered = ink * light + 128;  // divided by 255 with rounding
      out[c] = static_cast<uint8_t>(std::max(light - ((covered + (covered >> 8)) >> 8), 0));
    }
  }
  return rgb;
}

}  // namespace

Result<image::Decoded> image::decode_jpeg(Bytes bytes, const ImageLimits& limits) {
  Decompressor d;
  Header header;
  if (!read_header(&d.jpeg, &d.context, bytes, &header)) {
    return invalid_file(cat("JPEG: ", printable(d.context.message)));
  }
  DH_TRY(check_size(header.width, header.height, limits));
  // A block of 8 x 8 pixels takes a bit at least.
  constexpr uint64_t kPixelsPerByte = 8 * 64;
  DH_TRY(check_compression(uint64_t{header.width} * header.height, kPixelsPerByte, bytes.size()));
  Decoded decoded;
  decoded.image = Image(header.width, header.height, header.channels);
  const auto stride = static_cast<size_t>(header.width) * static_cast<size_t>(header.channels);
  if (header.exif != nullptr) {
    decoded.orientation = exif_orientation({header.exif, header.exif_size});
  }
  if (!read_rows(&d.jpeg, &d.context, decoded.image.pixels.data(), stride)) {
    return invalid_file(cat("JPEG: ", printable(d.context.message)));
  }
  if (header.channels == 4) decoded.image = rgb_of_cmyk(decoded.image, header.inverted);
  return decoded;
}

Result<std::vector<uint8_t>> encode_jpeg(const Image& image, int quality) {
  DH_CHECK(quality >= 1 && quality <= 100);
  if (image.channels == 4) return encode_jpeg(to_rgb(image), quality);
  Compressor c;
  if (!write_rows(&c.jpeg, &c.context, image, quality, &c.out, &c.size)) {
    return invalid_argument(cat("JPEG: ", printable(c.context.message)));
  }
  return std::vector<uint8_t>(c.out, c.out + c.size);
}

}  // namespace downhaul
