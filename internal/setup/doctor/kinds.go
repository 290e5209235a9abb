package doctor

// Owners of faults.
const (
	ownConfig  = "weir.yaml"
	ownServer  = "the server's author"
	ownMachine = "this machine"
	ownClient  = "the client's file"
	ownNetwork = "the network"
	ownService = "the service"
	ownPerson  = "you"
)

// kinds is the table of findings. docs/troubleshooting.md is generated from it.
var kinds = []kind{
	{"config-broken", Fail, ownConfig, "The configuration cannot be read, so weir does not start.", "Correct the place that the finding names; `weir config check` lists all of them."},
	{"config-missing", Warn, ownConfig, "There is no configuration.", "Run `weir init`, or write a weir.yaml with `mcpServers`."},
	{"config-untrusted", Warn, ownConfig, "The configuration came with this folder, and you have not agreed to run its commands. Its servers are not looked at.", "Read the file, then run `weir trust`."},
	{"config-server", Fail, ownConfig, "One entry of `mcpServers` is wrong. The other servers run.", "Correct the key that the finding names, or set `disabled: true`."},
	{"config-warning", Warn, ownConfig, "A key has no effect, or another one than it seems.", "Correct the place that the finding names."},
	{"config-readable", Warn, ownMachine, "Other users of this machine can read a file with secrets.", "Run `chmod 600` on it; `weir doctor --fix` does."},

	{"runtime-missing", Fail, ownMachine, "The program of a server is not in `PATH`.", "Install it, or set `command` to its full path."},
	{"runtime-service", Fail, ownService, "The program is in the shell's `PATH`, and not in the service's.", "Run `weir service install` again: it takes the shell's `PATH`."},
	{"runtime-version", Warn, ownMachine, "The runtime is older than most servers need.", "Install a newer version."},
	{"runtime-unusable", Fail, ownMachine, "The runtime is there, but does not run. A shim of mise or asdf has no version chosen for this folder.", "Choose a version for all folders: `mise use -g node`, `asdf set -u nodejs VERSION`."},
	{"runtime-nvm", Warn, ownMachine, "The program is in a folder of nvm or fnm, which only an interactive shell has in its `PATH`. Programs from a desktop's menu do not find it.", "Run `weir service install`, which keeps the shell's `PATH`, or set `command` to the full path."},
	{"runtime-docker", Fail, ownMachine, "The Docker daemon does not answer.", "Start Docker, and make sure that you may use it (group `docker`)."},
	{"runtime-wsl", Warn, ownMachine, "weir runs in WSL, the program in Windows: paths and environment of the one mean nothing to the other.", "Install the program within WSL."},

	{"server-start", Fail, ownConfig, "The program of a server cannot be started.", "Correct `command`, `args` or `cwd` of the server."},
	{"server-exit", Fail, ownServer, "The program of a server ends before it answers.", "Read its last lines: a key, an argument or a package is missing in most cases."},
	{"server-starting", Warn, ownMachine, "The server is still starting. A first start that downloads a package takes a minute, and many servers at once take longer.", "Run `weir doctor NAME`, which waits 30 seconds for it. If it stays silent, run its command in a shell: a program that asks a question waits for ever."},
	{"server-silent", Fail, ownServer, "The server did not answer in the time that it has.", "Run its command in a shell: a program that asks a question waits for ever."},
	{"server-noise", Warn, ownServer, "The server prints text to stdout, which is for MCP messages alone.", "Have the server print its log to stderr, often by an option such as `--quiet`."},
	{"server-sign-in", Fail, ownPerson, "The server wants you to sign in (OAuth).", "Run `weir login` with the server's name."},
	{"server-unauthorized", Fail, ownConfig, "The server does not accept the credentials (401 or 403).", "Renew the token in `headers` of the server."},
	{"server-tls", Fail, ownNetwork, "The certificate of the server is not accepted.", "Correct the clock or the host's name. For a company's own authority, set `SSL_CERT_FILE` where weir runs."},
	{"server-dns", Fail, ownNetwork, "The name of the server's host is not known.", "Correct `url`, or connect to the VPN that knows the name."},
	{"server-unreachable", Fail, ownNetwork, "The server takes no connection.", "Start the server, or correct host and port in `url`."},
	{"server-proxy", Warn, ownMachine, "An HTTP proxy is set, and `NO_PROXY` does not have 127.0.0.1. Programs send what is for weir to the proxy.", "Set `NO_PROXY=127.0.0.1,localhost` for clients and servers."},
	{"server-changed", Warn, ownServer, "The server offers something else than when you agreed to it: its definitions differ from `weir.lock`.", "Look with `weir trust diff SERVER`, then agree with `weir trust accept SERVER`."},
	{"server-unconfined", Warn, ownMachine, "The sandbox of the server leaves something open on this machine.", "Install `bubblewrap`, or set `sandbox.image` for a container; `sandbox: {require: true}` does not start the server otherwise."},
	{"server-document", Fail, ownConfig, "The OpenAPI document of a server cannot be read.", "Correct `openapi` of the server, or the document; version 3.0 or 3.1 is read, as JSON or YAML."},
	{"server-failed", Fail, ownServer, "The server failed for another reason.", "Read the error, and what the server says of it in its documentation."},

	{"schema-broken", Warn, ownServer, "The definition of a tool is broken. Its calls fail, or it is left out.", "Update the server, or exclude the tool with `exclude_tools`."},
	{"schema-twice", Warn, ownServer, "Two tools, resources or prompts have one name.", "Give one of the servers a `namespace`, or exclude one of the two."},
	{"schema-override", Warn, ownConfig, "An override of a tool cannot be applied, or names a tool or a parameter that the server does not have.", "Correct `overrides` of the server: `weir ls --tools` lists its tools, and `weir show TOOL` the parameters."},
	{"schema-name", Warn, ownConfig, "A name is longer than clients take: Cursor leaves out tools of which server and tool have over 60 characters together, others refuse 64.", "Set a shorter `namespace`, or `mode: gateway`, which lists three tools."},

	{"flow-unused", Warn, ownConfig, "A rule of `flow` fits nothing that the servers list.", "Correct its pattern: `weir flow ls` has the ids of the tools."},

	{"gateway-port", Fail, ownMachine, "Another program has the port.", "End that program, or set another `listen` and run `weir connect` again."},
	{"gateway-version", Warn, ownMachine, "The gateway that runs has another version than this program.", "Restart the gateway: `weir service stop`, then `weir service start`."},
	{"gateway-clock", Warn, ownMachine, "The clock of this machine is wrong. Certificates and tokens are judged by it.", "Set the clock, or switch its synchronisation on."},
	{"gateway-apart", Fail, ownNetwork, "The store of the cluster does not acknowledge the gateway, which serves only what needs nothing of the store.", "Start the NATS servers that are away. Make room on their disks: one whose disk was full writes again only after a restart."},
	{"gateway-stale", Warn, ownMachine, "A gateway has ended without removing the record of its address.", "Remove the record; `weir doctor --fix` does."},

	{"store-away", Fail, ownNetwork, "The NATS servers of `store` do not answer. The gateway serves what needs nothing of them, and joins its cluster when they answer.", "Start the servers, or correct their hosts and ports in `store`."},
	{"store-refused", Fail, ownConfig, "The NATS servers of `store` do not take this gateway: its credentials, its TLS or its account are wrong.", "Correct the URL, `creds`, `ca`, `cert` or `key` of `store` as the finding says, or allow the gateway at NATS."},

	{"client-unreadable", Fail, ownClient, "The client's file cannot be read, so the client does not see its servers either.", "Correct the file at the place that the finding names."},
	{"client-none", Warn, ownClient, "No client on this machine uses weir.", "Run `weir connect CLIENT`."},
	{"client-path", Fail, ownClient, "The client's entry starts a program that is not there.", "Run `weir connect` for the client again."},
	{"client-port", Fail, ownClient, "The client's entry names an address at which no gateway answers.", "Run `weir connect` for the client again, or start the gateway."},
	{"client-twice", Warn, ownClient, "The client has several entries for weir and shows each tool twice.", "Run `weir connect` for the client again: it leaves one."},
	{"client-lost", Fail, ownClient, "weir's entry is gone since `weir connect`. Programs that keep their file in memory write old contents back.", "Quit the client, then put the entry back; `weir doctor --fix` does."},

	{"keyring-silent", Fail, ownMachine, "The system's keyring does not answer, and the configuration names secrets in it.", "Unlock the keyring, or keep the secrets in a file: `weir secret set NAME --store file`."},

	{"service-off", Warn, ownService, "The service is installed, but does not run or does not start at login.", "Run `weir service start`."},
	{"service-linger", Warn, ownService, "The service ends when you log out, as lingering is off.", "Run `loginctl enable-linger`."},
	{"service-path", Warn, ownService, "The shell's `PATH` has folders that the service's does not have.", "Run `weir service install` again."},

	{"disk-full", Fail, ownMachine, "The disk of weir's files is full.", "Free some space, or move `artifacts.dir` to another disk."},
	{"disk-low", Warn, ownMachine, "The disk of weir's files is almost full.", "Free some space."},

	{"doctor-late", Warn, ownMachine, "A check did not end in time.", "Run `weir doctor` again, when the machine is less busy."},
}
