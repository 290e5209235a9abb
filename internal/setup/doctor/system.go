package doctor

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// keyringLimit bounds the question to the keyring.
const keyringLimit = 3 * time.Second

// storeLimit bounds the question to the servers of the store.
const storeLimit = 3 * time.Second

// checkStore asks the servers that gateways share, if the configuration names some.
func (d *doctor) checkStore(ctx context.Context) []Finding {
	if d.Store == nil || d.Distrust != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	switch refused, err := d.Store(ctx); {
	case err == nil:
		return []Finding{fine("store", "store", "NATS answers")}
	case refused:
		return []Finding{found("store-refused", "store", "%v", err)}
	default:
		return []Finding{found("store-away", "store", "%v", err)}
	}
}

// checkKeyring asks the keyring, if the configuration needs it.
func (d *doctor) checkKeyring(ctx context.Context) []Finding {
	if d.Keyring == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, keyringLimit)
	defer cancel()
	if err := d.Keyring(ctx); err != nil {
		return []Finding{found("keyring-silent", "keyring", "%v", err)}
	}
	return []Finding{fine("keyring", "keyring", "it answers")}
}

// checkService compares the service with the expectations of a user of this machine.
func (d *doctor) checkService(context.Context) []Finding {
	s, err := d.service()
	if err != nil || !s.Installed {
		return nil // not everybody wants one
	}
	var list []Finding
	switch {
	case !s.Running:
		list = append(list, found("service-off", "service", "it is installed and does not run"))
	case !s.Enabled:
		list = append(list, found("service-off", "service", "it runs, and does not start at the next login").fix("%s", "Run: weir service install"))
	}
	if d.env.OS == "linux" && s.Running && !s.Lingers {
		list = append(list, found("service-linger", "service", ""))
	}
	if s.Path != "" {
		if missing := d.missing(s.Path); len(missing) > 0 {
			list = append(list, found("service-path", "service", "its PATH does not have %s of the shell's", strings.Join(missing, ", ")))
		}
	}
	if len(list) == 0 {
		list = append(list, fine("service", "service", "it runs, and starts at login"))
	}
	return list
}

// missing returns the folders of the shell's PATH that exist and another PATH does not have.
// Folders that a shell makes only for itself do not count.
func (d *doctor) missing(other string) (folders []string) {
	list := ":"
	if d.env.windows() {
		list = ";"
	}
	has := strings.Split(other, list)
	for dir := range strings.SplitSeq(d.env.Getenv("PATH"), list) {
		if dir == "" || slices.Contains(has, dir) || slices.Contains(folders, dir) || strings.Contains(dir, "fnm_multishells") {
			continue
		}
		if _, err := d.env.Stat(dir); err == nil {
			folders = append(folders, dir)
		}
	}
	return folders
}

// Free bytes of a disk below which it is full, or almost.
const (
	fullDisk = 50 << 20
	lowDisk  = 500 << 20
)

// checkDisk reports disks without room for weir's state.
func (d *doctor) checkDisk(context.Context) []Finding {
	folders := []string{d.State}
	if d.Config != nil && d.Config.Artifacts.Dir != "" {
		folders = append(folders, d.Config.Artifacts.Dir)
	}
	var list []Finding
	for _, folder := range folders {
		at, free := folder, uint64(0)
		err := error(nil)
		for at != "" { // the nearest folder that exists
			if free, err = d.env.Free(at); err == nil || filepath.Dir(at) == at {
				break
			}
			at = filepath.Dir(at)
		}
		switch {
		case at == "" || err != nil:
		case free < fullDisk:
			list = append(list, found("disk-full", folder, "%d MB are free", free>>20))
		case free < lowDisk:
			list = append(list, found("disk-low", folder, "%d MB are free", free>>20))
		}
	}
	return list
}
