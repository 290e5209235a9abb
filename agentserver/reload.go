package agentserver

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// An editor writes a file in several steps. So the file is read after the folder has been quiet for
// settle, at the latest patience after the first step.
const (
	settle   = 100 * time.Millisecond
	patience = time.Second
)

// Watch calls Reload whenever the configuration or a skill changes. It returns nil when ctx ends,
// and an error if the folders can no longer be watched. It logs faults of a configuration.
func (s *Server) Watch(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch the configuration: %w", err)
	}
	defer w.Close()
	follow := func() error {
		for _, dir := range s.folders() {
			if slices.Contains(w.WatchList(), dir) {
				continue
			}
			if err := w.Add(dir); err != nil {
				return fmt.Errorf("watch %s: %w", dir, err)
			}
		}
		return nil
	}
	if err := follow(); err != nil {
		return err
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	var first time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-w.Events:
			if !ok {
				return fmt.Errorf("watch the configuration: the watcher ended")
			}
			if event.Op == fsnotify.Chmod || !s.mine(event.Name) {
				continue
			}
		case _, ok := <-w.Errors:
			if !ok {
				return fmt.Errorf("watch the configuration: the watcher ended")
			}
			// Events were lost, so it may have changed.
		case <-timer.C:
			first = time.Time{}
			if err := s.Reload(); err != nil {
				s.log.Error("the changed configuration cannot be used; the agent keeps the previous one", "agent", s.name, "err", err)
			} else {
				s.log.Info("configuration read again", "agent", s.name, "tools", len(s.offer.Load().tools))
			}
			if err := follow(); err != nil {
				s.log.Warn("a folder of skills is not watched", "err", err)
			}
			continue
		}
		if first.IsZero() {
			first = time.Now()
		}
		timer.Reset(max(0, min(settle, patience-time.Since(first))))
	}
}

// mine reports whether a changed file may belong to the configuration.
func (s *Server) mine(name string) bool {
	if filepath.Clean(name) == filepath.Clean(s.o.Config) || isSkill(filepath.Base(name)) {
		return true
	}
	// A folder that was made below one of skills, or a link that was turned.
	ext := strings.ToLower(filepath.Ext(name))
	return ext == "" || filepath.Base(name) == filepath.Base(s.o.Config)
}

// folders returns the folders of the configuration and of its skills.
func (s *Server) folders() []string {
	s.reloads.Lock()
	roots := slices.Clone(s.watched)
	s.reloads.Unlock()
	var all []string
	for i, root := range roots {
		all = append(all, root)
		if i > 0 || s.o.Config == "" {
			all = append(all, skillFolders(root)...)
		}
	}
	return all
}
