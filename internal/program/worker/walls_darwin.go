package worker

// confine closes what the process does not need. There is no wall here but the process and its limits: files and
// the network are out of reach because the process can open no descriptor.
func confine() []string {
	if err := setLimits(descriptors); err != nil {
		return nil
	}
	return []string{"no descriptors"}
}

// before is the address space that the runtime of Go reserves, in bytes.
const before = 64 << 30
