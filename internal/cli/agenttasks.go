package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-mcp/weir/agentserver"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/taskqueue"
)

const (
	// tasksBucket is the bucket of NATS with the tasks of agents' replicas, of all groups.
	tasksBucket = "weir_tasks"
	// tasksBytes bounds it, where weir makes it.
	tasksBytes = 1 << 30
	// tasksTimeout bounds the connection at the start.
	tasksTimeout = 10 * time.Second
)

// sharedTasks connects to the NATS server of a configuration with queue.group.
func sharedTasks(q agentserver.QueueConfig) (docs taskqueue.Docs, closing func(), err error) {
	o := []nats.Option{nats.Name("weir agent"), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second), nats.ReconnectBufSize(-1), nats.Timeout(tasksTimeout)}
	if q.Creds != "" {
		o = append(o, nats.UserCredentials(q.Creds))
	}
	if q.CA != "" {
		o = append(o, nats.RootCAs(q.CA))
	}
	if q.Cert != "" {
		o = append(o, nats.ClientCert(q.Cert, q.Key))
	}
	conn, err := nats.Connect(q.Store, o...)
	if err != nil {
		var wrong *url.Error
		if errors.As(err, &wrong) {
			err = wrong.Err // without the text, which may have a password
		}
		return nil, nil, fmt.Errorf("%s: %w", withoutPasswords(q.Store), err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), tasksTimeout)
	defer cancel()
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
