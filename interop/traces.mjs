// Spans, as OpenTelemetry's own schema reads them: an agent's trace goes on in weir and in the server.
//
//   node interop/traces.mjs --weir bin/weir
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, expectEqual, here, main, Report, run, scratch, startWeir, work } from './harness.mjs';
import { setup } from './setup.mjs';

const python = join(work, 'pythonotlp', 'bin', 'python');

// collector takes exports and keeps each in a file.
async function collector() {
  const files = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const file = join(scratch, `export-${files.length}.json`);
    writeFileSync(file, gunzipSync(Buffer.concat(chunks)));
    files.push(file);
    response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { files, url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

const trace = '0af7651916cd43dd8448eb211c80319c';
const root = 'b7ad6b7169203331';

// calls opens a session and calls tools by name, in the trace.
async function calls(url, names) {
  const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
  const post = async (id, method, params) => {
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', id, method, params }) });
    headers['Mcp-Session-Id'] ??= response.headers.get('Mcp-Session-Id');
    return response.text();
  };
  await post(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'agent', version: '1' } });
  headers['Mcp-Protocol-Version'] = '2025-11-25';
  for (const [i, name] of names.entries()) {
    await post(i + 2, 'tools/call', { name, arguments: { rows: 2 }, _meta: { traceparent: `00-${trace}-${root}-01`, tracestate: 'vendor=1' } });
  }
}

export async function spansOfOthers({ weir }) {
  const report = new Report('spans for OpenTelemetry');
  if (!weir) return report.close();
  const sink = await collector();
  const running = await startWeir(weir, 'weir-traces', {
    mode: 'plain', mcpServers: { readings: { command: process.execPath, args: [join(here, 'readings.mjs')] } },
    otlp: { url: sink.url, service_name: 'gateway', sample: 0, headers: { 'x-key': 'k' } },
  });
  await calls(running.url, ['readings__list_readings', 'readings__no_such_tool']);
  await calls(running.at('readings'), ['list_readings']);
  await running.stop(); // It sends what waits.
  sink.close();
  const spans = await report.check('the schema reads every export', async () => {
    expect(sink.files.length > 0, 'nothing was sent');
    return JSON.parse((await run('otlp-collector', python, [join(here, 'traces', 'collector.py'), ...sink.files])).output);
  }) ?? [];
  await report.check('every span is in the agent\'s trace', () => {
    for (const span of spans) expectEqual([span.service, span.trace, span.sampled, span.state], ['gateway', trace, true, 'vendor=1'], span.name);
    expectEqual(spans.map(({ kind, name }) => `${kind} ${name}`).sort(), [
      'SPAN_KIND_CLIENT tools/call list_readings', 'SPAN_KIND_CLIENT tools/call list_readings',
      'SPAN_KIND_SERVER tools/call list_readings', 'SPAN_KIND_SERVER tools/call readings__list_readings', 'SPAN_KIND_SERVER tools/call readings__no_such_tool',
    ], 'spans');
  });
  await report.check('a request to a server is below the agent\'s request', () => {
    const servers = new Map(spans.filter(({ kind }) => kind === 'SPAN_KIND_SERVER').map((span) => [span.id, span]));
    for (const span of servers.values()) expectEqual(span.parent, root, `parent of ${span.name}`);
    for (const span of spans.filter(({ kind }) => kind === 'SPAN_KIND_CLIENT')) expect(servers.has(span.parent), `the parent of ${span.name} is no span`, span.parent);
  });
  await report.check('attributes and errors are those of the conventions', () => {
    const of = (name) => spans.find((span) => span.kind === 'SPAN_KIND_SERVER' && span.name === `tools/call ${name}`);
    const { attributes, error } = of('readings__list_readings');
    expectEqual([attributes['mcp.method.name'], attributes['gen_ai.operation.name'], attributes['gen_ai.tool.name'], attributes['jsonrpc.request.id'], error],
      ['tools/call', 'execute_tool', 'readings__list_readings', '2', false], 'attributes');
    const failed = of('readings__no_such_tool');
    expect(failed.error && failed.attributes['error.type'], 'no error type', failed);
  });
  return report.close();
}

if (process.argv[1] === join(here, 'traces.mjs')) await main(async (options) => { await setup(); return spansOfOthers(options); });
