package journal

import "io/fs"

// keepOwner does nothing: a new file inherits the rights of its folder.
func keepOwner(string, fs.FileInfo) error { return nil }

// syncFolder does nothing: folders cannot be synced.
func syncFolder(string) error { return nil }
