/* kernels/cpu/nn/lines.c - see the header. */
#include "kernels/cpu/nn/lines.h"

#include <string.h>

/* n pixels, `piece` bytes of each, from one pitch to another. Short pieces are moved a word at a time. */
static void move(const char *from, size_t from_pitch, char *to, size_t to_pitch, size_t piece, int64_t n) {
  if (from_pitch == piece && to_pitch == piece) {
    memcpy(to, from, (size_t)n * piece);
    return;
  }
  for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * to_pitch, from + (size_t)i * from_pitch, piece);
}

void weft_line_fill(const weft_lines_t *l, const char *row, char *to) {
  const int64_t before = l->from < 0 ? (-l->from < l->width ? -l->from : l->width) : 0;
  const int64_t first = l->from + before, room = l->width - before;
  const int64_t there = first >= l->in ? 0 : l->in - first < room ? l->in - first : room;
  for (int64_t c = 0; c < l->channels; c += l->block) {
    const size_t piece = (size_t)(l->channels - c < l->block ? l->channels - c : l->block) * l->size;
    memset(to, 0, (size_t)before * piece);
    to += (size_t)before * piece;
    move(row + (size_t)(first * l->pitch + c) * l->size, (size_t)l->pitch * l->size, to, piece, piece, there);
    to += (size_t)there * piece;
    memset(to, 0, (size_t)(room - there) * piece);
    to += (size_t)(room - there) * piece;
  }
}
