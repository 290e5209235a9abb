#!/usr/bin/env node
// Starts the program that the package of this platform holds. Nothing is downloaded, and no script
// runs at installation.
'use strict';
const { spawn } = require('node:child_process');
const { constants } = require('node:os');

const wanted = `@weir-mcp/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${wanted}/bin/weir${process.platform === 'win32' ? '.exe' : ''}`);
} catch {
  console.error(`weir: the package ${wanted} is not installed. It is an optional dependency of weir-mcp: install it again without --omit=optional (--no-optional), or see https://github.com/weir-mcp/weir/releases for other platforms.`);
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit', windowsHide: true });
// A terminal sends its signals to both programs: a second Ctrl-C would end weir at once.
const atTerminal = [0, 1, 2].some((fd) => require('node:tty').isatty(fd));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    if (signal === 'SIGTERM' || !atTerminal) child.kill(signal);
  });
}
child.on('error', (error) => {
  console.error(`weir: ${program} does not start: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
