import { readFileSync, writeFileSync } from 'node:fs';
let s = readFileSync('conformance.mjs', 'utf8');
s = s.replace("'conformance.mjs')", "'zz-old.mjs')").replace('for (const crossing of crossings)', 'for (const crossing of [])');
writeFileSync('zz-old.mjs', s);
let c = readFileSync('conformance-client.mjs', 'utf8');
c = c.replace("'conformance-client.mjs')", "'zz-oldc.mjs')").replace("'2025-03-26': signedIn('2025-03-26-oauth-metadata-backcompat', '2025-03-26-oauth-endpoint-fallback'),", "").replace(/'2025-11-25': \['initialize'[^\]]*\],/, '').replace(/ {2}'2026-07-28': \[[\s\S]*?\n {2}\],/, '');
writeFileSync('zz-oldc.mjs', c);
