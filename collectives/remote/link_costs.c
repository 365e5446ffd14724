/* collectives/remote/link_costs.c - smooths measured times, downwards fast, upwards slowly. */
#include "collectives/remote/link_costs.h"

enum { SHORT = 4 << 10, LONG = 64 << 10 };

void weft_link_costs_init(weft_link_costs_t *c) {
  weft_mutex_init(&c->mu);
  c->ways[WEFT_WAY_NEAR] = (weft_link_t){15e-6, 1 / 5e9};
  c->ways[WEFT_WAY_FAR] = (weft_link_t){120e-6, 1 / 1e9};
}

void weft_link_costs_deinit(weft_link_costs_t *c) { weft_mutex_deinit(&c->mu); }

/* One more sample; what is far off, or no time at all, moves it no more than what is just within. */
static double smooth(double old, double sample, double least, double most) {
  if (sample > 4 * old) sample = 4 * old;
  const double now = old + (sample - old) * (sample < old ? 0.5 : 1.0 / 32);
  return now < least ? least : now > most ? most : now;
}

void weft_link_costs_note(weft_link_costs_t *c, weft_way_t way, size_t bytes, double seconds) {
  weft_mutex_lock(&c->mu);
  weft_link_t *l = &c->ways[way];
  if (bytes <= SHORT) {
    l->alpha_s = smooth(l->alpha_s, seconds, 1e-6, 10e-3);
  } else if (bytes >= LONG) {
    l->byte_s = smooth(l->byte_s, (seconds - l->alpha_s) / (double)bytes, 1e-11, 1e-6);
  }
  weft_mutex_unlock(&c->mu);
}

weft_link_t weft_link_costs_of(weft_link_costs_t *c, weft_way_t way) {
  weft_mutex_lock(&c->mu);
  const weft_link_t l = c->ways[way];
  weft_mutex_unlock(&c->mu);
  return l;
}
