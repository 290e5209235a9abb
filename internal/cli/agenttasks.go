package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/weir-mcp/weir/agentserver"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsstore"
)

const (
	// tasksBucket is the bucket of NATS with the tasks of agents' replicas, of all groups.
	tasksBucket = "weir_tasks"
	// tasksBytes bounds it, where weir makes it.
	tasksBytes = 1 << 30
	// tasksTimeout bounds the connection at the start.
	tasksTimeout = 10 * time.Second
)

// sharedTasks connects to the NATS server of a configuration with queue.group. log gets later refusals of the server.
func sharedTasks(q agentserver.QueueConfig, log *slog.Logger) (docs store.Docs, closing func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), tasksTimeout)
	defer cancel()
	conn, err := natsstore.Dial(ctx, natsstore.Servers{URLs: strings.Split(q.Store, ","), Creds: q.Creds, CA: q.CA, Cert: q.Cert, Key: q.Key, Logger: log})
	if err != nil {
		var wrong *url.Error
		if errors.As(err, &wrong) {
			err = wrong.Err // without the text, which may have a password
		}
		return nil, nil, fmt.Errorf("%s: %w", withoutPasswords(q.Store), err)
	}
	opened, _, err := natsstore.Open(ctx, conn, natsstore.Options{Bucket: tasksBucket, MaxBytes: tasksBytes})
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("%s: %w", withoutPasswords(q.Store), err)
	}
	return opened, func() { opened.Close(); conn.Close() }, nil
}

// withoutPasswords returns URLs with commas in between that are safe to show or log.
func withoutPasswords(text string) string {
	all := strings.Split(text, ",")
	for i, one := range all {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil && u.Host != "" {
			u.User = nil // a name without a password is a token
			all[i] = u.String()
		} else {
			all[i] = "nats://…"
		}
	}
	return strings.Join(all, ",")
}
