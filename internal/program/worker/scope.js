// The scope of a program: the body of a function (host) that returns what the engine calls.
// Every intrinsic that it uses is taken here, before the program runs. A program that changes a
// prototype changes its own world only, and never its requests.
"use strict";
const { parse, stringify } = JSON;
const { apply } = Reflect;
const { create, defineProperty, freeze, getOwnPropertyDescriptor } = Object;
const { isArray } = Array;
const { isInteger, isSafeInteger } = Number;
const NewPromise = Promise, NewProxy = Proxy, NewError = Error, NewTypeError = TypeError;
const asText = String, asBigInt = BigInt, rawJSON = JSON.rawJSON, bigText = BigInt.prototype.toString;
const marks = new WeakMap(), setMark = marks.set, getMark = marks.get;

const own = (object, key) => {
	const d = getOwnPropertyDescriptor(object, key);
	return d === undefined ? undefined : d.value;
};
const put = (object, key, value, enumerable) => {
	defineProperty(object, key, { __proto__: null, value, enumerable, writable: true, configurable: true });
};

// Integers that a double would round arrive as a BigInt, and leave as they came.
put(BigInt.prototype, "toJSON", function toJSON() { return rawJSON(apply(bigText, this, [])); }, false);
function exactly(key, value, context) {
	if (typeof value !== "number" || !isInteger(value) || isSafeInteger(value)) return value;
	const source = context.source;
	for (let i = source[0] === "-" ? 1 : 0; i < source.length; i++) {
		if (source[i] < "0" || source[i] > "9") return value;
	}
	return asBigInt(source);
}

class ToolError extends NewError {
	constructor(message, { code = "TOOL_ERROR", retryable = false, details } = { __proto__: null }) {
		super(message);
		put(this, "code", code, true);
		put(this, "retryable", retryable, true);
		put(this, "details", details, true);
	}
}
put(ToolError.prototype, "name", "ToolError", false);

// Requests wait in a list, within the memory of the program, while as many as may be are at the host.
const flying = create(null); // id → request
let first = null, last = null, count = 0, ids = 0, closed = false, calls = 0, parallel = 0;
const made = { __proto__: null, call: 0, find: 0, open: 0 };

function ask(kind, subject, server, name, again, body) {
	const stack = new NewError().stack;
	if (closed) throw new NewTypeError("the program has ended, so it cannot " + kind);
	if (++made[kind] > calls) {
		closed = true;
		host.stop(kind, stack);
	}
	const request = {
		__proto__: null, kind, subject, server, name, again, body, stack, n: made[kind], next: null, resolve: null, reject: null,
	};
	const promise = new NewPromise((resolve, reject) => {
		request.resolve = resolve;
		request.reject = reject;
	});
	if (count < parallel) send(request);
	else {
		if (last === null) first = request;
		else last.next = request;
		last = request;
	}
	return promise;
}

function send(request) {
	const { kind, n, subject, server, name, again, stack, body } = request;
	request.body = "";
	flying[++ids] = request;
	count++;
	host.send(kind, ids, n, subject, server, name, again, stack, body);
}

// settle gives a request its answer. long: the answer has numbers that a double may round.
function settle(id, ok, body, long) {
	const request = flying[id];
	delete flying[id];
	count--;
	if (first !== null && !closed) {
		const next = first;
		first = next.next;
		if (first === null) last = null;
		send(next);
	}
	try {
		const value = long ? parse(body, exactly) : parse(body);
		if (ok) {
			request.resolve(value);
			return;
		}
		const error = new ToolError(value.message, value);
		put(error, "stack", request.stack, false);
		apply(setMark, marks, [error, body]);
		request.reject(error);
	} catch (error) {
		request.reject(error);
	}
}

function objectText(what, value) {
	if (value === undefined || value === null) return "{}";
	if (typeof value !== "object" || isArray(value)) throw new NewTypeError(what + " must be an object");
	return stringify(value);
}
function nameText(what, value) {
	if (typeof value !== "string" || value === "") throw new NewTypeError(what + " must be a string that is not empty");
	return value;
}
function mayRepeat(options) {
	return typeof options === "object" && options !== null && own(options, "again") === true;
}

const scope = {
	__proto__: null,
	async call(tool, args, options) {
		return await ask("call", nameText("the tool of call", tool), "", "", mayRepeat(options), objectText("the arguments of " + tool, args));
	},
	async find(query, options) {
		return await ask("find", nameText("the query of find", query), "", "", false, objectText("the options of find", options));
	},
	async open(handle, selector) {
		const body = selector === undefined ? "" : stringify(selector);
		return await ask("open", nameText("the handle of open", handle), "", "", false, body === undefined ? "" : body);
	},
	log(...values) {
		let line = "";
		for (let i = 0; i < values.length; i++) line += (i > 0 ? " " : "") + show(values[i]);
		host.log(line);
	},
	tools: named((server) => named((name) => freeze(async (args, options) => {
		return await ask("call", "", server, name, mayRepeat(options), objectText("the arguments of " + server + "." + name, args));
	}))),
	ToolError: freeze(ToolError),
};
scope.console = freeze({ __proto__: null, log: scope.log, info: scope.log, warn: scope.log, error: scope.log, debug: scope.log });

// named makes an object that has a member for every name. It is no promise, so it has no "then".
function named(member) {
	return new NewProxy(freeze(create(null)), freeze({
		__proto__: null,
		get: (target, name) => typeof name !== "string" || name === "then" ? undefined : member(name),
	}));
}

function show(value) {
	if (typeof value === "string") return value;
	try {
		if (value instanceof NewError) return asText(value);
		const json = stringify(value);
		return json === undefined ? asText(value) : json;
	} catch {
		return typeof value;
	}
}

// The program can compile no text: neither eval nor the constructors of functions are there.
const none = freeze(function Function() { throw new NewTypeError("programs cannot make functions of text"); });
for (const f of [function () {}, async function () {}, function* () {}, async function* () {}]) {
	const prototype = Object.getPrototypeOf(f);
	defineProperty(prototype, "constructor", { __proto__: null, value: none, writable: false, configurable: false });
}
for (const name of ["eval", "Function", "SharedArrayBuffer", "Atomics"]) delete globalThis[name];
delete Object.prototype.__proto__;

for (const name of ["call", "find", "open", "log", "tools", "console", "ToolError"]) {
	defineProperty(globalThis, name, { __proto__: null, value: freeze(scope[name]), writable: false, configurable: false });
}

async function run(program, input, long, mostCalls, mostParallel) {
	calls = mostCalls;
	parallel = mostParallel;
	try {
		const value = long ? parse(input, exactly) : parse(input);
		defineProperty(globalThis, "input", { __proto__: null, value, writable: true, configurable: false });
		const result = await program();
		let body;
		try {
			body = stringify(result);
		} catch (error) {
			closed = true;
			host.fail("result", "TypeError", "the result is not JSON: " + show(error), "", "");
			return;
		}
		host.end(body === undefined ? "null" : body);
	} catch (error) {
		closed = true;
		fail(error);
	}
}

function fail(error) {
	let name = "", message = "", stack = "", tool = "";
	try {
		if (error instanceof NewError) {
			tool = apply(getMark, marks, [error]);
			name = asText(error.name);
			message = asText(error.message);
			stack = asText(error.stack);
		} else if (error === null) name = "null"; // thrown without room for an error
		else message = "the program threw " + show(error);
	} catch {
		message = "the program threw a value that cannot be shown";
	}
	host.fail("thrown", name, message, stack, tool === undefined ? "" : tool);
}

return [settle, run];
