package config

import "time"

// Programs bounds the programs of agents, which make several calls in one call of tool_run.
type Programs struct {
	Enabled  bool          `key:"enabled" default:"true" doc:"Offer tool_run in the modes gateway and auto."`
	Calls    int           `key:"calls" default:"100" min:"1" doc:"Most calls of tools that one run makes, 2,000 at most. Calls that a resumed run answers from its journal do not count."`
	Parallel int           `key:"parallel" default:"8" min:"1" doc:"Most calls of one run at the same time, 64 at most."`
	Timeout  time.Duration `key:"timeout" default:"60s" min:"100ms" max:"1h" doc:"How long a run may take, without the time in which a person is asked. The argument timeout of tool_run can only shorten it."`
	Memory   Bytes         `key:"memory" default:"64MB" min:"8388608" doc:"Memory of one program. It is taken from limits.memory while the program runs."`
	Output   Bytes         `key:"output" default:"64KB" min:"1024" doc:"Most bytes that log(...) keeps of one run. They are returned below the result."`
	Workers  int           `key:"workers" default:"2" min:"1" doc:"Processes that wait for the next program, from the first program on, until none has run for five minutes; 64 at most."`

	Saved []*SavedProgram `key:"saved" empty:"same" name:"Name" doc:"Programs of this gateway that are tools, by name: the tool weir:NAME runs the program. Who may call it is decided as for any tool; the calls that it makes are judged for the same caller."`
}

// Upper bounds of programs.
const (
	maxProgramCalls    = 2000
	maxProgramParallel = 64
	maxProgramWorkers  = 64
	maxProgramOutput   = 1 << 20
	maxProgramMemory   = 1 << 30
	maxSavedPrograms   = 100
)

func checkPrograms(d *decoder, p *Programs) {
	for _, b := range []struct {
		key     string
		is, max int64
		most    string
	}{
		{"programs.calls", int64(p.Calls), maxProgramCalls, "2000"},
		{"programs.parallel", int64(p.Parallel), maxProgramParallel, "64"},
		{"programs.workers", int64(p.Workers), maxProgramWorkers, "64"},
		{"programs.output", int64(p.Output), maxProgramOutput, "1MB"},
		{"programs.memory", int64(p.Memory), maxProgramMemory, "1GB"},
	} {
		if b.is > b.max && !d.Bad(b.key) {
			d.Fail(d.At(b.key), b.key, "%s must be at most %s", b.key, b.most)
		}
	}
	if key := "programs.saved"; len(p.Saved) > maxSavedPrograms {
		d.Fail(d.At(key), key, "%s has %d programs, at most %d", key, len(p.Saved), maxSavedPrograms)
		return
	}
	for _, saved := range p.Saved {
		d.checkSaved(saved)
	}
}
