/* kernels/cpu/array/key_table_one.tmpl.h - the table of key_table.h for one width of keys: KEY, PLACE (an
 * integer as wide), SUFFIX. */
#define SLOT WEFT_CAT(key_slot, SUFFIX)

typedef struct WEFT_CAT(key_slot_of, SUFFIX) {
  KEY key;
  PLACE place; /* from 1 on; 0: empty */
} SLOT;

/* Keys of elements [begin, begin + n); 0 and -0 have one. */
static void WEFT_CAT(read_keys, SUFFIX)(const weft_tensor_t *t, int64_t begin, int64_t n, KEY *out) {
  const char *from = (const char *)t->data + (size_t)begin * weft_dtype_size(t->dtype);
  float floats[WEFT_KEY_BLOCK];
  if (t->dtype == WEFT_F16 || t->dtype == WEFT_BF16) {
    weft_cpu_cast_loop(t->dtype, WEFT_F32)(n, from, floats);
    from = (const char *)floats;
  }
#define READ(type) \
  for (int64_t i = 0; i < n; i++) out[i] = (KEY)((const type *)(const void *)from)[i]
  switch (from == (const char *)floats ? sizeof *floats : weft_dtype_size(t->dtype)) {
    case 1: READ(uint8_t); break;
    case 2: READ(uint16_t); break;
    case 4: READ(uint32_t); break;
    default: READ(uint64_t); break;
  }
#undef READ
  const KEY negative_zero = t->dtype == WEFT_F64 ? (KEY)(UINT64_C(1) << 63) : (KEY)(UINT32_C(1) << 31);
  if (!weft_dtype_is_floating(t->dtype)) return;
  for (int64_t i = 0; i < n; i++) out[i] = out[i] == negative_zero ? 0 : out[i];
}

/* Of a number of dtype t: twice the key without its sign is more than twice infinity's. */
static inline bool WEFT_CAT(is_nan, SUFFIX)(KEY key, weft_dtype_t dtype, uint64_t infinity) {
  const uint64_t twice = dtype == WEFT_F64 ? (uint64_t)key << 1 : (uint64_t)(uint32_t)(key << 1);
  return twice > infinity;
}

static inline __attribute__((always_inline)) SLOT *WEFT_CAT(slot_of, SUFFIX)(SLOT *slots, int shift,
                                                                             KEY key) {
  const uint64_t mask = (UINT64_C(1) << (64 - shift)) - 1;
  uint64_t at = key_hash(key) >> shift;
  while (slots[at].place != 0 && slots[at].key != key) at = (at + 1) & mask;
  return &slots[at];
}

static bool WEFT_CAT(grow, SUFFIX)(weft_key_table_t *t) {
  const int wider = t->shift - GROWTH;
  SLOT *old = t->slots, *more = weft_calloc((size_t)1 << (64 - wider), sizeof *more);
  if (more == NULL) return false;
  for (uint64_t i = 0; i < UINT64_C(1) << (64 - t->shift); i++) {
    if (old[i].place != 0) *WEFT_CAT(slot_of, SUFFIX)(more, wider, old[i].key) = old[i];
  }
  weft_free(old);
  t->slots = more;
  t->shift = wider;
  return true;
}

static bool WEFT_CAT(add_keys, SUFFIX)(weft_key_table_t *t, const weft_tensor_t *x, int64_t begin, int64_t n,
                                       int64_t *places) {
  const uint64_t infinity = twice_infinity(x->dtype);
  KEY keys[WEFT_KEY_BLOCK];
  if (t->slots == NULL) t->slots = weft_calloc((size_t)1 << (64 - t->shift), sizeof(SLOT));
  if (t->slots == NULL) return false;
  WEFT_CAT(read_keys, SUFFIX)(x, begin, n, keys);
  for (int64_t i = 0; i < n; i++) {
    if (i + AHEAD < n) {
      __builtin_prefetch((const SLOT *)t->slots + (key_hash(keys[i + AHEAD]) >> t->shift), 1);
    }
    if (WEFT_CAT(is_nan, SUFFIX)(keys[i], x->dtype, infinity)) {
      places[i] = t->n++;
      continue;
    }
    SLOT *slot = WEFT_CAT(slot_of, SUFFIX)(t->slots, t->shift, keys[i]);
    if (slot->place != 0) {
      places[i] = (int64_t)slot->place - 1;
      continue;
    }
    places[i] = t->n++;
    *slot = (SLOT){keys[i], (PLACE)t->n};
    if (++t->held >= INT64_C(1) << (63 - t->shift) && !WEFT_CAT(grow, SUFFIX)(t)) return false;
  }
  return true;
}

static void WEFT_CAT(find_keys, SUFFIX)(const weft_key_table_t *t, const weft_tensor_t *x, int64_t begin,
                                        int64_t n, bool *found) {
  const uint64_t infinity = twice_infinity(x->dtype);
  KEY keys[WEFT_KEY_BLOCK];
  WEFT_CAT(read_keys, SUFFIX)(x, begin, n, keys);
  for (int64_t i = 0; i < n; i++) {
    found[i] = t->slots != NULL && !WEFT_CAT(is_nan, SUFFIX)(keys[i], x->dtype, infinity) &&
               WEFT_CAT(slot_of, SUFFIX)(t->slots, t->shift, keys[i])->place != 0;
  }
}
#undef SLOT
