/* kernels/cpu/nn/channels.h - loops over the channels of a pixel, of which some stay in registers. */
#ifndef WEFT_KERNELS_CPU_NN_CHANNELS_H_
#define WEFT_KERNELS_CPU_NN_CHANNELS_H_

/* Channels that are computed at once: 32, then 8, then one. */
enum { WEFT_CHANNELS = 32, WEFT_FEW_CHANNELS = 8 };

/* Runs `statement` for all of `count` channels, in blocks: c is a block's first channel and n, a constant,
 * how many it has. What the statement calls is to be inlined, so that the compiler knows n there. */
#define WEFT_EACH_CHANNELS(count, statement)                        \
  for (int64_t c = 0, left = (count); left > 0; left = (count)-c) { \
    if (left >= WEFT_CHANNELS) {                                    \
      enum { n = WEFT_CHANNELS };                                   \
      statement;                                                    \
      c += n;                                                       \
    } else if (left >= WEFT_FEW_CHANNELS) {                         \
      enum { n = WEFT_FEW_CHANNELS };                               \
      statement;                                                    \
      c += n;                                                       \
    } else {                                                        \
      enum { n = 1 };                                               \
      statement;                                                    \
      c += n;                                                       \
    }                                                               \
  }

#endif /* WEFT_KERNELS_CPU_NN_CHANNELS_H_ */
