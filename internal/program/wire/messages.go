package wire

// Hello is the head of Ready.
type Hello struct {
	Version int      `json:"version"`
	Walls   []string `json:"walls"` // what confines the worker: see Walls of package worker
}

// Begin is the head of Start.
type Begin struct {
	Source   int   `json:"source"` // bytes of the body that are the source; the rest is the input
	Calls    int   `json:"calls"`
	Parallel int   `json:"parallel"`
	Memory   int64 `json:"memory"`
	Output   int64 `json:"output"`
	Millis   int64 `json:"millis"` // until the program is interrupted
}

// Request is the head of Call, Find and Open.
type Request struct {
	Tool   string `json:"tool,omitempty"` // also the query and the handle
	Server string `json:"server,omitempty"`
	Name   string `json:"name,omitempty"`
	N      int    `json:"n"`
	Again  bool   `json:"again,omitempty"`
	Line   int    `json:"line,omitempty"`
}

// Failure is the head of Fail.
type Failure struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Line    int      `json:"line,omitempty"`
	Column  int      `json:"column,omitempty"`
	Tool    *Refusal `json:"tool,omitempty"`
}

// Refusal is the body of Refuse.
type Refusal struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	Details   any    `json:"details,omitempty"`
}
