package fencedlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Severity is how bad a [Finding] is.
type Severity int

const (
	// Unknown is what could not be found out, mostly for want of a right.
	Unknown Severity = iota + 1
	// Notice is worth knowing.
	Notice
	// Warning is what loses locks in a failure that will happen one day.
	Warning
	// Critical is what loses locks in normal operation, or keeps them from being
	// acquired.
	Critical
)

// String names s.
func (s Severity) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Notice:
		return "notice"
	case Warning:
		return "warning"
	case Critical:
		return "critical"
	default:
		return fmt.Sprintf("Severity(%d)", int(s))
	}
}

// Finding is one thing that [Locker.Check] found.
type Finding struct {
	Severity Severity
	// Name is what was looked at, in a word or two that never change: eviction,
	// persistence, replicas, role, rights, version, clock, cluster, quorum.
	Name string
	// Node is the address of the server, empty when it is about all of them.
	Node string
	// Text says what is so, Advice what to do about it.
	Text, Advice string
}

// String is one line.
func (f Finding) String() string {
	s := f.Severity.String() + ": " + f.Name
	if f.Node != "" {
		s += " at " + f.Node
	}
	s += ": " + f.Text
	if f.Advice != "" {
		s += "; " + f.Advice
	}
	return s
}

// Report is what [Locker.Check] found, the worst first.
type Report struct {
	Findings []Finding
	// Nodes is how many servers were looked at.
	Nodes int
}

// Worst is the greatest severity of a finding, 0 when there is none.
func (r Report) Worst() Severity {
	worst := Severity(0)
	for i := range r.Findings {
		worst = max(worst, r.Findings[i].Severity)
	}
	return worst
}

// String has a finding on each line.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d findings on %d servers\n", len(r.Findings), r.Nodes)
	for i := range r.Findings {
		fmt.Fprintln(&b, r.Findings[i])
	}
	return b.String()
}

// CheckError is the [ErrConfig] of a [Locker.Check] whose findings are as severe
// as Options.Strict.
type CheckError struct {
	// Findings are those that are, the worst first.
	Findings []Finding
}

func (e *CheckError) Error() string {
	s := "fencedlock: check: " + e.Findings[0].String()
	if more := len(e.Findings) - 1; more > 0 {
		s += fmt.Sprintf("; and %d more", more)
	}
	return s
}

// Is makes errors.Is(e, ErrConfig) true.
func (e *CheckError) Is(target error) bool { return target == ErrConfig }

// Check looks for what makes Redis lose locks or refuse them: eviction,
// persistence that is off, replicas that need not have a write, missing rights,
// a server that is too old or a replica, clocks that differ by more than a
// second, slots of a Cluster that nobody serves. It acquires, renews and releases
// a lock of its own on every server that has locks, and otherwise only reads.
// What it may not read, it reports as [Unknown]. Of a quorum it looks at each
// node, and reports those that do not answer, do not vote yet, or are one server
// under two names. Call it when the program starts, and log the report.
//
// Findings are no error unless Options.Strict says so: then it is a
// *[CheckError], beside the report. Other errors say that Redis cannot be used or
// looked at now: [ErrUnavailable], [ErrClosed], or the end of ctx. The report then
// has what could be found out, which may be why.
func (l *Locker) Check(ctx context.Context) (Report, error) {
	if err := checkContext(ctx); err != nil {
		return Report{}, err
	}
	if l.isClosed() {
		return Report{}, ErrClosed
	}
	var r Report
	unavailable, err := l.checkNodes(ctx, &r)
	if err != nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, &abandonedError{op: "check", errs: []error{ended(ctx)}}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	if unavailable != nil {
		return r, unavailable
	}
	return r, r.err(l.opts.Strict)
}

func (r *Report) add(s Severity, name, node, text, advice string) {
	r.Findings = append(r.Findings, Finding{Severity: s, Name: name, Node: node, Text: text, Advice: advice})
}

// err makes the findings from the given severity on an error.
func (r Report) err(strict Severity) error {
	if strict == 0 || r.Worst() < strict {
		return nil
	}
	e := &CheckError{}
	for i := range r.Findings {
		if r.Findings[i].Severity >= strict {
			e.Findings = append(e.Findings, r.Findings[i])
		}
	}
	return e
}

// checkNodes looks at every server. unavailable is that one of them did not do what
// a holder asks for.
func (l *Locker) checkNodes(ctx context.Context, r *Report) (unavailable, err error) {
	b, ok := l.backend.(*redisBackend)
	if !ok {
		unavailable = l.checkRights(ctx, r, checkResource, "")
		if l.quorum != nil {
			l.checkQuorum(ctx, l.quorum, r)
		}
		return unavailable, nil
	}
	nodes, err := b.masters(ctx)
	if err != nil {
		return nil, errors.Join(l.checkRights(ctx, r, checkResource, ""), l.failure("check", "", b.explain(err)))
	}
	r.Nodes = len(nodes)
	resources := b.resourceOn(ctx, nodes, l.opts.Prefix)
	for _, n := range nodes {
		p := l.probe(ctx, n)
		p.into(r)
		if resource := resources[n]; resource != "" {
			unavailable = cmp.Or(unavailable, l.checkRights(ctx, r, resource, p.node))
		} else {
			r.add(Unknown, "rights", p.node, "no name was found that this server has the lock of", "see that it has slots")
		}
	}
	return unavailable, nil
}
