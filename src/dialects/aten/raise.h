#pragma once

#include "dialects/aten/table.h"

/// The functions that table.inc names, one declaration for each row (repeats are harmless).
namespace downhaul::aten {

#define DH_OPTIONS ""
#define DH_ATEN_SAME(schema, spelling)
#define DH_ATEN(schema, function, spelling) Out function(Call& c);
#define DH_ATEN_VIEW(schema, function) Out function(Call& c);
#include "dialects/aten/table.inc"
#undef DH_ATEN_SAME
#undef DH_ATEN
#undef DH_ATEN_VIEW
#undef DH_OPTIONS

}  // namespace downhaul::aten
