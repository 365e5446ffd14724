/* kernels/cpu/math/tile_rows.tmpl.h - tiles of every number of rows. */
#define ROWS 1
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 2
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 3
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 4
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 5
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 6
#include "kernels/cpu/math/tile_one.tmpl.h"
#if WEFT_SIMD == 16
#define ROWS 7
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 8
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 9
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 10
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 11
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 12
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 13
#include "kernels/cpu/math/tile_one.tmpl.h"
#define ROWS 14
#include "kernels/cpu/math/tile_one.tmpl.h"
#endif
