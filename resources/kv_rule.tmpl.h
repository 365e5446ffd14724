/* resources/kv_rule.tmpl.h - what the rules of a table do to one row of floats.
 *
 * Parameters: T (float or double), KV_NAME (the function's name). #undefs both.
 *   row   [n] values, then [n] slots if the rule has some: the velocity of momentum, the sum of squares of
 *         adagrad
 *   from  [n] what was pushed: a value, or a gradient
 */
static void KV_NAME(const weft_kv_config_t *c, T *row, const T *from, int64_t n) {
  const T rate = (T)c->learning_rate, momentum = (T)c->momentum;
  T *slot = row + n;
  switch (c->rule) {
    case WEFT_KV_ASSIGN:
      for (int64_t i = 0; i < n; i++) row[i] = from[i];
      break;
    case WEFT_KV_ADD:
      for (int64_t i = 0; i < n; i++) row[i] += from[i];
      break;
    case WEFT_KV_SGD:
      for (int64_t i = 0; i < n; i++) row[i] -= rate * from[i];
      break;
    case WEFT_KV_MOMENTUM:
      for (int64_t i = 0; i < n; i++) {
        slot[i] = momentum * slot[i] + from[i];
        row[i] -= rate * slot[i];
      }
      break;
    case WEFT_KV_ADAGRAD:
      for (int64_t i = 0; i < n; i++) {
        slot[i] += from[i] * from[i];
        if (slot[i] > 0) row[i] -= rate * from[i] / (T)sqrt((double)slot[i]);
      }
      break;
  }
}
#undef T
#undef KV_NAME
