/* kernels/cpu/ctc/ctc_path.c - decoded labels, as many as come. */
#include <inttypes.h>

#include "kernels/cpu/ctc/ctc_decode.h"

weft_status_t *weft_ctc_path_push(weft_ctc_path_t *p, int32_t label) {
  if (p->count == p->room) {
    int64_t room = p->room == 0 ? 64 : 2 * p->room;
    int32_t *labels = weft_realloc(p->labels, (size_t)room, sizeof *labels);
    if (labels == NULL) return WEFT_NO_MEMORY("%" PRId64 " decoded labels", room);
    p->labels = labels;
    p->room = room;
  }
  p->labels[p->count++] = label;
  return NULL;
}
