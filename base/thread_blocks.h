/* base/thread_blocks.h - aligned blocks of up to 256 KiB, which each thread keeps for the next time.
 *
 * malloc keeps blocks of up to 1 KB for each thread. Larger ones, and all that are aligned, it looks for in
 * lists, under a lock, cuts, and joins again when they are freed: 100 to 400 ns each time. What a short step
 * makes is of these sizes. A thread keeps KEPT_BYTES at most of what it has freed; if that is full, it gives
 * up all, because the sizes of a phase that has ended would fill it for good.
 */
#ifndef WEFT_BASE_THREAD_BLOCKS_H_
#define WEFT_BASE_THREAD_BLOCKS_H_

#include <stddef.h>

enum { WEFT_THREAD_BLOCK_LARGEST = 256 << 10, WEFT_THREAD_BLOCK_ALIGNMENT = 64 };

/* A block of `bytes`, WEFT_THREAD_BLOCK_LARGEST at most; not zeroed; NULL: there is no memory. Up to an
 * eighth of it is left over. Thread-safe; any thread may give it back. */
void *weft_thread_block_take(size_t bytes);
/* `bytes`: as it was taken. */
void weft_thread_block_give(void *p, size_t bytes);

#endif /* WEFT_BASE_THREAD_BLOCKS_H_ */
