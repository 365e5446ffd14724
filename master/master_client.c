/* master/master_client.c - what all backends of the master client share. */
#include "master/master_client.h"

weft_master_client_t *weft_master_client_retain(weft_master_client_t *m) {
  if (m != NULL) atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
  return m;
}

void weft_master_client_release(weft_master_client_t *m) {
  if (m != NULL && atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) == 1) m->ops->destroy(m);
}
