package s3compat

import (
	"context"
	"time"
)

// MaxHistory is how many writes a register remembers.
const MaxHistory = maxHistory

// SetNow sets the clock of a Store.
func SetNow(s *Store, now func() time.Time) { s.now = now }

// Register is what tests look at in a register.
type Register struct {
	Fence, Seq int64
	Write      string
	Dropped    int
}

// ReadRegister reads a register.
func ReadRegister(ctx context.Context, s *Store, resource string) (Register, error) {
	st, err := s.read(ctx, resource)
	if err != nil || st.env == nil {
		return Register{}, err
	}
	return Register{st.env.Fence, st.env.Seq, st.env.Write, len(st.env.Dropped)}, nil
}

// DecodeRegister decodes the bytes of a register, with its inline values.
func DecodeRegister(b []byte) (r Register, values map[string]string, err error) {
	e, err := decode(b)
	if err != nil {
		return Register{}, nil, err
	}
	values = map[string]string{}
	for key, en := range e.Entries {
		if en.inline() {
			values[key] = string(en.value)
		}
	}
	return Register{e.Fence, e.Seq, e.Write, len(e.Dropped)}, values, nil
}
