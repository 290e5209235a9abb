"""Reads exports of OTLP/HTTP in JSON with OpenTelemetry's own schema and prints their spans, as JSON.

python collector.py FILE...

OTLP writes ids in hexadecimal where protobuf's JSON has base64; everything else is protobuf's JSON, and a member
that the schema does not have is an error.
"""

import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


def in_base64(value):
    if isinstance(value, list):
        return [in_base64(each) for each in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64encode(bytes.fromhex(each)).decode() if key in ids else in_base64(each) for key, each in value.items()}


def value_of(value):
    return getattr(value, value.WhichOneof("value"))


def read(file):
    with open(file, encoding="utf-8") as stream:
        request = json_format.ParseDict(in_base64(json.load(stream)), ExportTraceServiceRequest(), ignore_unknown_fields=False)
    request = ExportTraceServiceRequest.FromString(request.SerializeToString())  # as a collector hands it on
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                assert len(span.trace_id) == 16 and len(span.span_id) == 8 and len(span.parent_span_id) in (0, 8)
                assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
                yield {
                    "service": {a.key: value_of(a.value) for a in resource.resource.attributes}["service.name"],
                    "scope": scope.scope.name,
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "state": span.trace_state,
                    "name": span.name,
                    "kind": Span.SpanKind.Name(span.kind),
                    "sampled": span.flags & 1 == 1,
                    "error": span.status.code == 2,
                    "attributes": {a.key: value_of(a.value) for a in span.attributes},
                }


print(json.dumps([span for file in sys.argv[1:] for span in read(file)]))
