/* rendezvous/key.c - the text of rendezvous keys. */
#include "device/device_name.h"
#include "rendezvous/gather.h"

static weft_status_t *invalid(weft_str_t key) {
  int shown = key.length > 1024 ? 1024 : (int)key.length;
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid  rendezvous key: %.*s", shown,
                    key.data); /* two blanks: TensorFlow's */
}

static bool parse_hex(weft_str_t s, uint64_t *out) {
  uint64_t value = 0;
  if (s.length == 0 || s.length > 16) return false;
  for (size_t i = 0; i < s.length; i++) {
    char c = s.data[i];
    uint64_t digit;
    if (c >= '0' && c <= '9') {
      digit = (uint64_t)(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = (uint64_t)(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = (uint64_t)(c - 'A') + 10;
    } else {
      return false;
    }
    value = value << 4 | digit;
  }
  *out = value;
  return true;
}

static bool is_device(weft_str_t name) {
  weft_device_name_t parsed;
  weft_status_t *s = weft_device_name_parse(name, &parsed);
  bool ok = s == NULL;
  weft_status_free(s);
  return ok;
}

weft_status_t *weft_key_parse(weft_str_t key, weft_key_parts_t *out) {
  weft_str_t part[5] = {0}, rest = key;
  for (int i = 0; i < 4; i++) {
    if (!weft_str_split(rest, ';', &part[i], &rest)) return invalid(key);
  }
  part[4] = rest;
  for (int i = 0; i < 5; i++) {
    if (part[i].length == 0) return invalid(key);
  }
  weft_key_parts_t parts = {.src_device = part[0], .dst_device = part[2], .edge = part[3]};
  bool ok = weft_str_find(part[4], ';') < 0 && is_device(part[0]) &&
            parse_hex(part[1], &parts.src_incarnation) && is_device(part[2]);
  if (!ok) return invalid(key);
  *out = parts;
  return NULL;
}

weft_status_t *weft_key_parse_next(weft_str_t key, const weft_key_parts_t *before, weft_key_parts_t *out) {
  const char *begin = before->src_device.data;
  const size_t same =
      (size_t)(before->dst_device.data + before->dst_device.length - begin) + 1; /* with ';' */
  weft_str_t edge, last;
  if (key.length <= same || memcmp(key.data, begin, same) != 0) return weft_key_parse(key, out);
  if (!weft_str_split(weft_str_of(key.data + same, key.length - same), ';', &edge, &last) ||
      edge.length == 0 || last.length == 0 || weft_str_find(last, ';') >= 0)
    return invalid(key);
  *out = (weft_key_parts_t){
      .src_device = weft_str_of(key.data, before->src_device.length),
      .dst_device = weft_str_of(key.data + (before->dst_device.data - begin), before->dst_device.length),
      .edge = edge,
      .src_incarnation = before->src_incarnation};
  return NULL;
}

void weft_key_print(weft_strbuf_t *out, weft_str_t src_device, uint64_t src_incarnation,
                    weft_str_t dst_device, weft_str_t edge, uint64_t frame_id, int64_t iteration) {
  weft_strbuf_append(out, src_device);
  weft_strbuf_printf(out, ";%016llx;", (unsigned long long)src_incarnation);
  weft_strbuf_append(out, dst_device);
  weft_strbuf_putc(out, ';');
  weft_strbuf_append(out, edge);
  weft_strbuf_printf(out, ";%llu:%lld", (unsigned long long)frame_id, (long long)iteration);
}
