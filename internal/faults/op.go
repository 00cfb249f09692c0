package faults

import (
	"fmt"
	"time"
)

// Kind is what a worker does.
type Kind string

// The kinds of an [Op].
const (
	Acquire Kind = "acquire" // the claims are part of it
	Read    Kind = "read"
	Write   Kind = "write"
	Release Kind = "release"
)

// Result is what a worker was told.
type Result string

// The results of an [Op].
const (
	// Never means that no answer was recorded: the worker was killed, or is
	// still waiting.
	Never Result = ""
	// Done is success.
	Done Result = "done"
	// Refused is the store's verdict about the fence: nothing has happened.
	Refused Result = "refused"
	// Failed is any other error that says that nothing has happened.
	Failed Result = "failed"
	// Unknown is an outcome that is neither.
	Unknown Result = "unknown"
)

// Op is one operation of one worker, recorded when it begins and again when it
// has ended.
type Op struct {
	Who string `json:"who"`
	ID  int    `json:"id"` // counts those of Who

	Kind     Kind   `json:"kind"`
	Resource string `json:"resource"`
	Fence    int64  `json:"fence,omitempty"`
	Holder   string `json:"holder,omitempty"` // a digest: the holder is a secret
	// Value is what was read, or is written: the empty string before the first
	// write, and different in every write.
	Value string `json:"value,omitempty"`
	// Saw is what the writer believes to replace.
	Saw string `json:"saw,omitempty"`

	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"`
	Result Result    `json:"result,omitempty"`
	Err    string    `json:"err,omitempty"`
}

// before says that o had ended when p began.
func (o *Op) before(p *Op) bool { return o.Result != Never && o.Ended.Before(p.Began) }

func (o *Op) String() string {
	text := fmt.Sprintf("%-8s %-7s %s", o.Who, o.Kind, o.Resource)
	if o.Fence != 0 {
		text += fmt.Sprintf(" fence %d by %s", o.Fence, o.Holder)
	}
	switch o.Kind {
	case Read:
		text += fmt.Sprintf(" got %q", o.Value)
	case Write:
		text += fmt.Sprintf(" %q over %q", o.Value, o.Saw)
	case Acquire, Release:
	}
	if o.Result == Never {
		return text + ": no answer"
	}
	text += ": " + string(o.Result)
	if o.Err != "" {
		text += ": " + o.Err
	}
	return text
}
