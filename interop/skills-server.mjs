// An MCP server of 2026-07-28 with the Skills extension (SEP-2640), made for the scenarios sep-2640-skills-* of the official suite:
// node skills-server.mjs PORT. It has two skills, each on a page of its own, one with a folder.
import { createHash } from 'node:crypto';
import { meta, Refused, serve } from './modern-server.mjs';

const files = Object.fromEntries([['review', 'Reviews a change.'], ['release', 'Makes a release.']].flatMap(([name, description]) => [
  [`skill://${name}/SKILL.md`, `---\nname: ${name}\ndescription: ${description}\n---\n\nRead notes/how.md first.\n`],
  [`skill://${name}/notes/how.md`, `How to ${name}.\n`],
]));
const bytes = (uri) => Buffer.byteLength(files[uri]);
const skills = ['review', 'release'].map((name) => ({
  uri: `skill://${name}/SKILL.md`,
  frontmatter: { name, description: /description: (.*)/.exec(files[`skill://${name}/SKILL.md`])[1] },
  resources: Object.keys(files).filter((uri) => uri.startsWith(`skill://${name}/`)).map((uri) => ({ uri, size: bytes(uri), digest: `sha256:${createHash('sha256').update(files[uri]).digest('hex')}` })),
}));

// children are what stands directly in a folder.
function children(folder) {
  const inside = Object.keys(files).filter((uri) => uri.startsWith(`${folder}/`));
  if (inside.length === 0) throw new Refused(-32602, `no folder ${folder}`);
  const names = new Set(inside.map((uri) => uri.slice(folder.length + 1).split('/')[0]));
  return [...names].map((name) => ({ uri: `${folder}/${name}`, name, mimeType: `${folder}/${name}` in files ? 'text/markdown' : 'inode/directory' }));
}

const cacheable = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
const known = (found, uri) => {
  if (!found) throw new Refused(-32602, `no ${uri}`, { uri });
  return found;
};

serve(process.argv[2], {
  'server/discover': () => ({
    ...cacheable, supportedVersions: ['2026-07-28'], capabilities: { resources: {}, extensions: { [meta('skills')]: { directoryRead: true } } },
    _meta: { [meta('serverInfo')]: { name: 'skills', version: '1' } },
  }),
  'resources/list': () => ({ ...cacheable, resources: Object.keys(files).map((uri) => ({ uri, name: uri.slice(8), ...skills.find((skill) => skill.uri === uri)?.frontmatter, mimeType: 'text/markdown' })) }),
  'resources/templates/list': () => ({ ...cacheable, resourceTemplates: [] }),
  'resources/read': ({ uri }) => ({ ...cacheable, contents: [{ uri, mimeType: 'text/markdown', text: known(files[uri], uri) }] }),
  'resources/directory/read': ({ uri }) => ({ ...cacheable, resources: children(uri) }),
  'skills/list': ({ cursor }) => (cursor ? { ...cacheable, skills: skills.slice(1) } : { ...cacheable, skills: skills.slice(0, 1), nextCursor: 'second' }),
  'skills/get': ({ uri }) => ({ ...cacheable, skill: known(skills.find((one) => one.uri === uri), uri) }),
});
