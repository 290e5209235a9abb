package socketio

// releases return the counted bytes of a message.
type releases []func()

func (r releases) run() {
	for _, release := range r {
		release()
	}
}
