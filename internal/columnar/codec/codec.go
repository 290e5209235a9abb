package codec

import (
	"fmt"
	"io"

	"github.com/weir-mcp/weir/internal/columnar"
)

func init() { columnar.Register(codec{}) }

// codec implements columnar.Codec.
type codec struct{}

func (codec) WriteArrow(w io.Writer, rows columnar.Rows) (int64, error) { return writeArrow(w, rows) }

func (codec) WriteParquet(w io.Writer, rows columnar.Rows, grow func(int64) error) (int64, error) {
	return writeParquet(w, rows, grow)
}

func (codec) CountArrow(r io.Reader) (int, error) { return countArrow(r) }

func (codec) Read(data []byte, s columnar.Sink) (err error) {
	own := &sinkError{}
	defer func() {
		// Both decoders take some malformed data for a fault of the program.
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w: %v", columnar.ErrForm, fault)
		}
		if own.err != nil {
			err = own.err
		}
	}()
	watched := columnar.Sink{
		Grow: func(n int64) error {
			if s.Grow == nil || n <= 0 {
				return nil
			}
			return own.keep(s.Grow(n))
		},
		Row: func(row []byte) error { return own.keep(s.Row(row)) },
	}
	if columnar.IsParquet(data) {
		err = readParquet(data, watched)
	} else {
		err = readArrow(data, watched)
	}
	if err != nil && own.err == nil {
		err = fmt.Errorf("%w: %w", columnar.ErrForm, err)
	}
	return err
}

// sinkError keeps the first error of a Sink, which a decoder may wrap or hide.
type sinkError struct{ err error }

func (e *sinkError) keep(err error) error {
	if e.err == nil {
		e.err = err
	}
	return err
}
