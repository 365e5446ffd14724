/* tests/tools/array_file.c - numpy's format, version 1.0. */
#include "tests/tools/array_file.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/tools/command_run.h"

static double random_number(uint64_t *state) { /* in [-1, 1) */
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) / (double)(UINT64_C(1) << 52) - 1;
}

void write_array(char out[600], const char *name, const char *type, int rows, int columns, double scale) {
  static char bytes[1 << 20];
  uint64_t state = (uint64_t)rows * 31 + (uint64_t)columns;
  char file[64];
  int begin = snprintf(bytes, 11, "\x93NUMPY\x01%c%c%c", 0, 118, 0);
  begin = snprintf(bytes + 10, 119, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,", type, rows);
  begin += columns > 0 ? snprintf(bytes + 10 + begin, 60, " %d), }", columns)
                       : snprintf(bytes + 10 + begin, 60, "), }");
  memset(bytes + 10 + begin, ' ', (size_t)(117 - begin));
  bytes[127] = '\n';
  char *to = bytes + 128;
  for (int i = 0; i < rows * (columns > 0 ? columns : 1); i++) {
    double x = random_number(&state) * scale;
    float f = (float)x;
    int32_t n = (int32_t)fabs(x);
    if (type[1] == 'i') memcpy(to, &n, 4);
    if (type[1] == 'f' && type[2] == '4') memcpy(to, &f, 4);
    if (type[2] == '8') memcpy(to, &x, 8);
    to += type[2] - '0';
  }
  snprintf(file, sizeof file, "%s_%s_%d_%d.npy", name, type + 1, rows, columns);
  snprintf(out, 600, "%s=%s", name, write_file(file, bytes, (size_t)(to - bytes)));
}
