package telemetry

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// writeRuntime writes the figures of the Go runtime, with the names and meanings that Prometheus' own Go client gives them, so
// that dashboards for Go programs show weir as well.
func writeRuntime(e *exposition) {
	gc := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&gc)
	const pauses = "go_gc_duration_seconds"
	e.head(pauses, "A summary of the wall-time pause (stop-the-world) duration in garbage collection cycles.", summary)
	for i, q := range []string{"0", "0.25", "0.5", "0.75", "1"} {
		e.sample(pauses, gc.PauseQuantiles[i].Seconds(), "quantile", q)
	}
	e.sample(pauses+"_sum", gc.PauseTotal.Seconds())
	e.sample(pauses+"_count", float64(gc.NumGC))

	samples := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(samples)
	e.one("go_gc_gogc_percent", "Heap size target percentage configured by the user, otherwise 100.", gauge, float64(samples[0].Value.Uint64()))
	e.one("go_gc_gomemlimit_bytes", "Go runtime memory limit configured by the user, otherwise math.MaxInt64.", gauge, float64(samples[1].Value.Uint64()))
	e.one("go_goroutines", "Number of goroutines that currently exist.", gauge, float64(runtime.NumGoroutine()))
	e.one("go_info", "Information about the Go environment.", gauge, 1, "version", runtime.Version())

	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for _, f := range []struct {
		name, help string
		kind       kind
		value      float64
	}{
		{"alloc_bytes", "Number of bytes allocated in heap and currently in use.", gauge, float64(m.Alloc)},
		{"alloc_bytes_total", "Total number of bytes allocated in heap until now, even if released already.", counter, float64(m.TotalAlloc)},
		{"buck_hash_sys_bytes", "Number of bytes used by the profiling bucket hash table.", gauge, float64(m.BuckHashSys)},
		{"frees_total", "Total number of heap objects frees.", counter, float64(m.Frees)},
		{"gc_sys_bytes", "Number of bytes used for garbage collection system metadata.", gauge, float64(m.GCSys)},
		{"heap_alloc_bytes", "Number of heap bytes allocated and currently in use.", gauge, float64(m.HeapAlloc)},
		{"heap_idle_bytes", "Number of heap bytes waiting to be used.", gauge, float64(m.HeapIdle)},
		{"heap_inuse_bytes", "Number of heap bytes that are in use.", gauge, float64(m.HeapInuse)},
		{"heap_objects", "Number of currently allocated objects.", gauge, float64(m.HeapObjects)},
		{"heap_released_bytes", "Number of heap bytes released to OS.", gauge, float64(m.HeapReleased)},
		{"heap_sys_bytes", "Number of heap bytes obtained from system.", gauge, float64(m.HeapSys)},
		{"last_gc_time_seconds", "Number of seconds since 1970 of last garbage collection.", gauge, float64(m.LastGC) / 1e9},
		{"mallocs_total", "Total number of heap objects allocated, both live and gc-ed.", counter, float64(m.Mallocs)},
		{"mcache_inuse_bytes", "Number of bytes in use by mcache structures.", gauge, float64(m.MCacheInuse)},
		{"mcache_sys_bytes", "Number of bytes used for mcache structures obtained from system.", gauge, float64(m.MCacheSys)},
		{"mspan_inuse_bytes", "Number of bytes in use by mspan structures.", gauge, float64(m.MSpanInuse)},
		{"mspan_sys_bytes", "Number of bytes used for mspan structures obtained from system.", gauge, float64(m.MSpanSys)},
		{"next_gc_bytes", "Number of heap bytes when next garbage collection will take place.", gauge, float64(m.NextGC)},
		{"other_sys_bytes", "Number of bytes used for other system allocations.", gauge, float64(m.OtherSys)},
		{"stack_inuse_bytes", "Number of bytes obtained from system for stack allocator in non-CGO environments.", gauge, float64(m.StackInuse)},
		{"stack_sys_bytes", "Number of bytes obtained from system for stack allocator.", gauge, float64(m.StackSys)},
		{"sys_bytes", "Number of bytes obtained from system.", gauge, float64(m.Sys)},
	} {
		e.one("go_memstats_"+f.name, f.help, f.kind, f.value)
	}
	threads, _ := runtime.ThreadCreateProfile(nil)
	e.one("go_sched_gomaxprocs_threads", "The current runtime.GOMAXPROCS setting, or the number of operating system threads that can execute user-level Go code simultaneously.", gauge, float64(runtime.GOMAXPROCS(0)))
	e.one("go_threads", "Number of OS threads created.", gauge, float64(threads))
}

// processFigures are of this process. A figure that the system does not tell is negative and is left out.
type processFigures struct {
	cpu, openFiles, maxFiles, received, sent, resident, started, virtual, maxVirtual float64
}

func unknownFigures() processFigures { return processFigures{-1, -1, -1, -1, -1, -1, -1, -1, -1} }

// writeProcess writes the figures of the process, with the names that Prometheus gives them.
func writeProcess(e *exposition) {
	p := readProcess()
	for _, f := range []struct {
		name, help string
		kind       kind
		value      float64
	}{
		{"cpu_seconds_total", "Total user and system CPU time spent in seconds.", counter, p.cpu},
		{"max_fds", "Maximum number of open file descriptors.", gauge, p.maxFiles},
		{"network_receive_bytes_total", "Number of bytes received by the process over the network.", counter, p.received},
		{"network_transmit_bytes_total", "Number of bytes sent by the process over the network.", counter, p.sent},
		{"open_fds", "Number of open file descriptors.", gauge, p.openFiles},
		{"resident_memory_bytes", "Resident memory size in bytes.", gauge, p.resident},
		{"start_time_seconds", "Start time of the process since unix epoch in seconds.", gauge, p.started},
		{"virtual_memory_bytes", "Virtual memory size in bytes.", gauge, p.virtual},
		{"virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes.", gauge, p.maxVirtual},
	} {
		if f.value >= 0 {
			e.one("process_"+f.name, f.help, f.kind, f.value)
		}
	}
}
