#!/usr/bin/env python3
"""Writes the structs of messages and the tables that read and write them (rpc/fields.h).

  tools/message_tables.py LIST HEADER SOURCE PROTO...

LIST names messages and fields (services/messages.txt); the .proto files have their numbers and types.
"""
import re
import sys

SCALARS = {"string": "TEXT", "bytes": "BYTES", "bool": "BOOL", "fixed64": "FIXED64", "messages": "MESSAGES", "int64s": "I64S", "strings": "TEXTS", "tensors": "TENSORS"}
INTEGERS = {"int32", "int64", "uint32", "uint64"}
MEMBERS = {"TEXT": "weft_str_t ", "BYTES": "weft_str_t ", "I64": "int64_t ", "I64S": "weft_i64s_t ", "FIXED64": "uint64_t ", "BOOL": "bool ",
           "TEXTS": "weft_texts_t ", "MESSAGES": "weft_texts_t ", "TENSOR": "weft_tensor_t *", "TENSORS": "weft_tensors_t ", "NAMED_TENSORS": "weft_tensors_t "}


def read_protos(paths):
    """{message: {field: (number, type, is repeated)}}, and the names of enums. A message in a message is "Outer.Inner"."""
    messages, enums = {}, set()
    for path in paths:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", open(path).read(), flags=re.S)
        scope = []
        for token in re.finditer(r"(message|enum|oneof)\s+(\w+)\s*\{|(\})|(repeated\s+|optional\s+)?(map<[^>]*>|[\w.]+)\s+(\w+)\s*=\s*(\d+)\s*(\[[^\]]*\])?;", text):
            kind, name, end, label, typ, field, number, _ = token.groups()
            if kind:
                scope.append((kind, name))
                path_of = ".".join(n for k, n in scope if k == "message")
                if kind == "message":
                    messages[path_of] = {}
                elif kind == "enum":
                    enums.add(name)
            elif end:
                scope.pop()
            elif scope and scope[-1][0] != "enum":
                messages[".".join(n for k, n in scope if k == "message")][field] = (int(number), typ, typ.startswith("map") or (label or "").startswith("repeated"))
    return messages, enums


def kind_of(typ, is_repeated, enums):
    plain = typ.rpartition(".")[2]
    if plain in INTEGERS or plain in enums:
        return "I64S" if is_repeated else "I64"
    if plain == "TensorProto":
        return "TENSORS" if is_repeated else "TENSOR"
    if plain == "NamedTensorProto" and is_repeated:
        return "NAMED_TENSORS"
    if is_repeated:
        return "TEXTS" if plain == "string" else "MESSAGES"
    return SCALARS.get(plain, "BYTES")


def read_list(path, messages, enums):
    """[(message, [(field, number, kind)])] in the order of the list."""
    text = re.sub(r"#[^\n]*", "", open(path).read())
    found = []
    for entry in re.finditer(r"^([\w.]+):((?:[^\n]*\n(?=[ \t]+\S))*[^\n]*)", text, re.M):
        name, fields = entry[1], []
        for word in entry[2].split():
            own = re.fullmatch(r"(\w+):(\w+)=(\d+)", word)
            number, typ, is_repeated = (int(own[3]), own[2], False) if own else messages[name][word]
            fields.append((own[1] if own else word, number, kind_of(typ, is_repeated, enums)))
        found.append((name.removeprefix("weft."), fields))
    return found


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace(".", "")).lower()


def main():
    source, header, body, *protos = sys.argv[1:]
    listed = read_list(source, *read_protos(protos))
    guard = "WEFT_SERVICES_MESSAGES_H_"
    with open(header, "w") as h, open(body, "w") as c:
        h.write(f'#ifndef {guard}\n#define {guard}\n\n#include "rpc/fields.h"\n')
        c.write('#include "services/messages.h"\n')
        for name, fields in listed:
            s = snake(name)
            members = "".join(f"  {MEMBERS[kind]}{field};\n" for field, _, kind in fields)
            h.write(f"\ntypedef struct weft_{s}_msg {{\n{members}}} weft_{s}_msg_t;\nextern const weft_message_type_t weft_{s}_type;\n")
            rows = "".join(f'    {{{number}, WEFT_FIELD_{kind}, "{field}", offsetof(weft_{s}_msg_t, {field})}},\n' for field, number, kind in fields)
            c.write(f'\nstatic const weft_field_t {s}_fields[] = {{\n{rows}}};\nconst weft_message_type_t weft_{s}_type = WEFT_MESSAGE_TYPE("{name}", {s}_fields);\n')
        h.write(f"\n#endif /* {guard} */\n")


if __name__ == "__main__":
    main()
