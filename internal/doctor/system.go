package doctor

import (
	"context"
	"path/filepath"
	"time"
)

// keyringLimit bounds the question to the keyring.
const keyringLimit = 3 * time.Second

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

// Free bytes of a disk below which it is full, or almost.
const (
	fullDisk = 50 << 20
	lowDisk  = 500 << 20
)

// checkDisk reports disks on which weir cannot keep what it has to.
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
