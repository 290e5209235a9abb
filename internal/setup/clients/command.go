package clients

import (
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
)

// base returns the name of a program without its folder and the endings of Windows.
func base(command string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(command, `\`, "/")))
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}

// splitCommand splits a command that holds its arguments. Some clients allow it.
func splitCommand(s *Server) {
	first, rest, ok := strings.Cut(s.Command, " ")
	if !ok || len(s.Args) > 0 || strings.ContainsAny(first, `/\`) || strings.ContainsAny(rest, `"'`) {
		return
	}
	s.Command, s.Args = first, strings.Fields(rest)
}

// relative reports whether an entry names files from its working folder.
func relative(s *Server) bool {
	return slices.ContainsFunc(append([]string{s.Command}, s.Args...), func(text string) bool {
		return text == "." || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") || strings.HasPrefix(text, `.\`)
	})
}

// payload returns the program that a package runner starts, with its arguments: for npx -y X a, it
// returns X and a. It returns another program unchanged.
func payload(s *Server) (program string, args []string) {
	program, args = base(s.Command), s.Args
	if program == "cmd" && len(args) > 1 && strings.EqualFold(args[0], "/c") {
		program, args = base(args[1]), args[2:]
	}
	switch program {
	case "npx", "bunx":
	case "pnpm", "yarn", "npm":
		if len(args) == 0 || args[0] != "dlx" && args[0] != "exec" {
			return program, args
		}
		args = args[1:]
	case "uvx":
	default:
		return program, args
	}
	for len(args) > 0 && slices.Contains([]string{"-y", "--yes", "--", "-q", "--quiet", "--bun"}, args[0]) {
		args = args[1:]
	}
	if len(args) == 0 {
		return program, nil
	}
	return packageName(args[0]), args[1:]
}

// packageName returns the name of a package without its version.
func packageName(id string) string {
	if at := strings.LastIndexByte(id, '@'); at > 0 {
		return id[:at]
	}
	return id
}

// unwrap returns the server that an entry reaches through the bridge mcp-remote. An entry with
// options that weir does not have stays as it is.
func unwrap(s Server) (Server, bool) {
	program, args := payload(&s)
	if program != "mcp-remote" || len(args) == 0 || hasVariable(args[0]) || !strings.Contains(args[0], "://") {
		return s, false
	}
	remote := s
	remote.Transport, remote.URL = HTTP, args[0]
	if looksSSE(remote.URL) {
		remote.Transport = SSE
	}
	remote.Command, remote.Args, remote.Env, remote.Cwd, remote.EnvFile = "", nil, nil, "", ""
	remote.Headers = map[string]string{}
	left := maps.Clone(s.Env)
	delete(left, "MCP_REMOTE_CONFIG_DIR")
	for args = args[1:]; len(args) > 0; args = args[1:] {
		option, value, joined := strings.Cut(args[0], "=")
		if !strings.HasPrefix(option, "--") {
			if strings.Trim(option, "0123456789") != "" || joined {
				return s, false
			}
			continue // the port of the answer to a login
		}
		if slices.Contains([]string{"--allow-http", "--debug", "--silent", "--enable-proxy"}, option) {
			continue
		}
		if !joined {
			if len(args) < 2 {
				return s, false
			}
			value, args = args[1], args[1:]
		}
		switch option {
		case "--header":
			name, text, ok := strings.Cut(value, ":")
			if !ok {
				return s, false
			}
			remote.Headers[strings.TrimSpace(name)] = strings.TrimSpace(fill(text, s.Env, left))
		case "--transport":
			remote.Transport = HTTP
			if strings.HasPrefix(value, "sse") {
				remote.Transport = SSE
			}
		case "--host", "--auth-timeout":
		default:
			return s, false
		}
	}
	return remote, len(left) == 0 && s.EnvFile == ""
}

// fill replaces ${X}, as mcp-remote does, with the variables of the entry. It removes the used ones
// from left. They arrive here as weir writes them: escaped, or translated.
func fill(text string, env, left map[string]string) string {
	for name, value := range env {
		for _, form := range []string{"$${" + name + "}", "${env:" + name + "}", "${" + name + ":-}"} {
			if strings.Contains(text, form) {
				text = strings.ReplaceAll(text, form, value)
				delete(left, name)
			}
		}
	}
	return text
}

// looksSSE reports whether a URL without a type is one of the transport of 2024-11-05: servers have
// it at a path that ends in /sse.
func looksSSE(text string) bool {
	text, _, _ = strings.Cut(text, "?")
	return strings.HasSuffix(strings.TrimRight(text, "/"), "/sse")
}

// hostOf returns the host of a URL, for messages: the rest may hold a secret.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "the server"
	}
	return u.Host
}

// ours reports whether an entry starts weir itself.
func ours(s *Server) bool {
	if s.Transport != Stdio {
		return false
	}
	program, args := payload(s)
	if !slices.Contains([]string{"weir", "weir-mcp"}, program) || len(args) == 0 {
		return false
	}
	return args[0] == "attach" || args[0] == "serve" && slices.Contains(args, "--stdio")
}

// inputsOf returns the ids that the texts of an entry ask for, each once.
func inputsOf(s *Server) []string {
	var ids []string
	for _, text := range textsOf(s) {
		for {
			before, after, ok := strings.Cut(*text, "${input:")
			if !ok {
				break
			}
			id, _, closed := strings.Cut(after, "}")
			if closed && !strings.HasSuffix(before, "$") && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
			text = &after
		}
	}
	return ids
}

// textsOf returns the texts of an entry, in a fixed order. Values of maps are copies.
func textsOf(s *Server) []*string {
	out := []*string{&s.Command, &s.Cwd, &s.URL, &s.EnvFile}
	for i := range s.Args {
		out = append(out, &s.Args[i])
	}
	for _, m := range []map[string]string{s.Env, s.Headers} {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			value := m[key]
			out = append(out, &value)
		}
	}
	return out
}
