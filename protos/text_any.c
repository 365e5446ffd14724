/* protos/text_any.c - protobuf-c keeps no register of types, so the few that matter are listed here. */
#include "protos/text_any.h"

#include "protos/any.pb-c.h"
#include "protos/config.pb-c.h"
#include "protos/control_flow.pb-c.h"
#include "protos/graph.pb-c.h"
#include "protos/meta_graph.pb-c.h"
#include "protos/queue_runner.pb-c.h"
#include "protos/saved_object_graph.pb-c.h"
#include "protos/struct.pb-c.h"
#include "protos/transport_options.pb-c.h"
#include "protos/variable.pb-c.h"

static const ProtobufCMessageDescriptor *const known[] = {
    &tensorflow__asset_file_def__descriptor,   &tensorflow__cond_context_def__descriptor,
    &tensorflow__config_proto__descriptor,     &tensorflow__graph_def__descriptor,
    &tensorflow__queue_runner_def__descriptor, &tensorflow__recv_buf_resp_extra__descriptor,
    &tensorflow__saved_object__descriptor,     &tensorflow__saver_def__descriptor,
    &tensorflow__signature_def__descriptor,    &tensorflow__structured_value__descriptor,
    &tensorflow__tensor_proto__descriptor,     &tensorflow__tensor_shape_proto__descriptor,
    &tensorflow__type_spec_proto__descriptor,  &tensorflow__values_def__descriptor,
    &tensorflow__variable_def__descriptor,     &tensorflow__while_context_def__descriptor,
};

const ProtobufCMessageDescriptor *weft_text_any_type(weft_str_t type_url) {
  static const char prefix[] = "type.googleapis.com/"; /* other prefixes are legal, but not in use */
  if (!weft_str_starts_with(type_url, prefix)) return NULL;
  weft_str_t name = weft_str_of(type_url.data + sizeof prefix - 1, type_url.length - (sizeof prefix - 1));
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (weft_str_is(name, known[i]->name)) return known[i];
  }
  return NULL;
}

bool weft_text_is_any(const ProtobufCMessageDescriptor *d) { return d == &google__protobuf__any__descriptor; }
