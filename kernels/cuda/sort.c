/* kernels/cuda/sort.c - launches the sorting network of sort.cu. */
#include "kernels/cuda/sort.h"

#include "kernels/cuda/sort_args.h"

static weft_cuda_function_t start_function = WEFT_CUDA_FUNCTION("weft_sort_start"),
                            far_function = WEFT_CUDA_FUNCTION("weft_sort_far"),
                            near_function = WEFT_CUDA_FUNCTION("weft_sort_near");

int64_t weft_cuda_sort_room(int64_t n) {
  int64_t room = WEFT_CUDA_SORTED;
  while (room < n) room *= 2;
  return room;
}

static WEFT_Failure *sort_near(WEFT_KernelContext *c, void *keys, void *order, int64_t room,
                               int64_t first_run, int64_t last_run) {
  const int64_t blocks = room / WEFT_CUDA_SORTED, most = 8 * (int64_t)weft_cuda_num_processors(c);
  const weft_cuda_geometry_t g = {.grid = {(unsigned)(blocks < most ? blocks : most), 1, 1},
                                  .block = {WEFT_CUDA_BLOCK, 1, 1}};
  void *args[] = {&keys, &order, &room, &first_run, &last_run};
  return weft_cuda_launch(c, &near_function, &g, args);
}

WEFT_Failure *weft_cuda_sort(WEFT_KernelContext *c, void *keys, void *order, int64_t n) {
  int64_t room = weft_cuda_sort_room(n);
  void *start[] = {&keys, &order, &n, &room};
  WEFT_CUDA_TRY(weft_cuda_launch_over(c, &start_function, room, 1, start));
  WEFT_CUDA_TRY(sort_near(c, keys, order, room, 2, WEFT_CUDA_SORTED));
  for (int64_t run = 2 * WEFT_CUDA_SORTED; run <= room; run *= 2) {
    for (int64_t distance = run / 2; distance >= WEFT_CUDA_SORTED; distance /= 2) {
      void *args[] = {&keys, &order, &room, &run, &distance};
      WEFT_CUDA_TRY(weft_cuda_launch_over(c, &far_function, room / 2, 1, args));
    }
    WEFT_CUDA_TRY(sort_near(c, keys, order, room, run, run));
  }
  return NULL;
}
