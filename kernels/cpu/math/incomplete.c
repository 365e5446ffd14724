/* kernels/cpu/math/incomplete.c - incomplete gamma and beta functions, and Hurwitz' zeta function with what
 * is made of it. */
#define _DEFAULT_SOURCE /* special.h */
#include "kernels/cpu/loops/cost.h"
#include "kernels/cpu/loops/map.h"
#include "kernels/cpu/math/special.h"

#define MAP_STEM igamma
#define MAP_EXPR(a, x) weft_igamma((double)(a), (double)(x)).v
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"
#define MAP_STEM igamma_grad_a
#define MAP_EXPR(a, x) weft_igamma((double)(a), (double)(x)).d
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"
#define MAP_STEM igammac
#define MAP_EXPR(a, x) weft_igammac((double)(a), (double)(x))
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"

/* ---- Betainc ---- */

typedef struct betainc_job {
  const weft_tensor_t *in[3];
  weft_tensor_t *out;
} betainc_job_t;

static void betainc_run(void *arg, int64_t n, int64_t out_at, const int64_t *at, const int *step) {
  const betainc_job_t *j = arg;
  for (int64_t i = 0; i < n; i++) {
    int64_t k[3];
    for (int o = 0; o < 3; o++) k[o] = at[o] + i * step[o];
    if (j->out->dtype == WEFT_F32) {
      const float *a = j->in[0]->data, *b = j->in[1]->data, *x = j->in[2]->data;
      ((float *)j->out->data)[out_at + i] =
          (float)weft_betainc((double)a[k[0]], (double)b[k[1]], (double)x[k[2]]);
    } else {
      const double *a = j->in[0]->data, *b = j->in[1]->data, *x = j->in[2]->data;
      ((double *)j->out->data)[out_at + i] = weft_betainc(a[k[0]], b[k[1]], x[k[2]]);
    }
  }
}

/* Shapes are equal, but for scalars. */
static weft_status_t *betainc(weft_kernel_ctx_t *ctx) {
  betainc_job_t j = {.out = NULL};
  const weft_shape_t *shapes[3], *whole = NULL;
  weft_broadcast_t b;
  for (int i = 0; i < 3; i++) {
    j.in[i] = weft_in(ctx, i);
    shapes[i] = &j.in[i]->shape;
    if (shapes[i]->rank == 0) continue;
    if (whole != NULL && !weft_shape_eq(whole, shapes[i])) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Shapes of a, b and x are inconsistent: %s vs. %s",
                        WEFT_SHAPE_TEXT(whole), WEFT_SHAPE_TEXT(shapes[i]));
    }
    whole = shapes[i];
  }
  if (!weft_broadcast_init(&b, shapes, 3)) return WEFT_ERROR(INTERNAL, "Betainc: shapes");
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, j.in[0]->dtype, &b.shape, &j.out));
  weft_broadcast_run_cost(&b, ctx->device->pool, (weft_unit_cost_t){.cycles = 200}, betainc_run, &j);
  return NULL;
}

#define MAP_STEM polygamma
#define MAP_EXPR(x, y) weft_polygamma((double)(x), (double)(y))
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"
#define MAP_STEM zeta
#define MAP_EXPR(x, y) weft_zeta((double)(x), (double)(y))
#define EACH_FLOATS
#include "kernels/cpu/loops/map2.tmpl.h"

#define F32_F64 (WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))
const weft_kernel_t weft_cpu_incomplete_kernels[] = {
    WEFT_KERNEL("Betainc", "T", F32_F64, NULL, betainc, NULL),
    WEFT_MAP2("Igamma", F32_F64, igamma, WEFT_MAP_COSTLY),
    WEFT_MAP2("IgammaGradA", F32_F64, igamma_grad_a, WEFT_MAP_COSTLY),
    WEFT_MAP2("Igammac", F32_F64, igammac, WEFT_MAP_COSTLY),
    WEFT_MAP2("Polygamma", F32_F64, polygamma, WEFT_MAP_COSTLY),
    WEFT_MAP2("Zeta", F32_F64, zeta, WEFT_MAP_COSTLY),
    {0},
};
