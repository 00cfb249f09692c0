package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fenced-go/fenced/fencedstore"
)

func errorCases() []Case {
	return []Case{
		{
			"errors-carry-facts",
			"A refusal carries the fence that was refused and the newest ID that was claimed.",
			errorFacts,
		},
		{
			"errors-keep-the-secret",
			"No error shows a holder, neither the caller's nor another's.",
			errorSecrets,
		},
	}
}

func errorFacts(ctx context.Context, e Env) error {
	s, newest := e.New(), by(bob, 5)
	stale, reused, above := by(alice, 4), by(alice, 5), by(alice, 6)
	nowhere := on("nothing claimed", 4, alice)
	return first(
		isNotClaimed("write on a new resource", s.Write(ctx, nowhere, key, []byte("a")), nowhere, 0),
		accepted("claim 5", s.Claim(ctx, newest)),
		isStale("claim 4", s.Claim(ctx, stale), stale, 5),
		isStale("write 4", s.Write(ctx, stale, key, []byte("a")), stale, 5),
		isReused("claim 5, another holder", s.Claim(ctx, reused), reused),
		isReused("write 5, another holder", s.Write(ctx, reused, key, []byte("a")), reused),
		isNotClaimed("write 6", s.Write(ctx, above, key, []byte("a")), above, 5),
		isInvalid("claim 0", s.Claim(ctx, by(alice, 0)), "ID"),
		isInvalid("write without a holder", s.Write(ctx, by("", 5), key, []byte("a")), "Holder"),
		isInvalid("claim without a resource", s.Claim(ctx, on("", 5, alice)), "Resource"),
	)
}

func isStale(what string, err error, f fencedstore.Fence, newest int64) error {
	got, ok := errors.AsType[*fencedstore.StaleError](err)
	if !ok || *got != (fencedstore.StaleError{Fence: f, Newest: newest}) {
		return fmt.Errorf("%s: got %w, want a *StaleError with %v and newest %d", what, orAccepted(err), f, newest)
	}
	return refused(what, err, fencedstore.ErrStale)
}

func isReused(what string, err error, f fencedstore.Fence) error {
	got, ok := errors.AsType[*fencedstore.FenceReusedError](err)
	if !ok || got.Fence != f {
		return fmt.Errorf("%s: got %w, want a *FenceReusedError with %v", what, orAccepted(err), f)
	}
	return refused(what, err, fencedstore.ErrFenceReused)
}

func isNotClaimed(what string, err error, f fencedstore.Fence, newest int64) error {
	got, ok := errors.AsType[*fencedstore.NotClaimedError](err)
	if !ok || *got != (fencedstore.NotClaimedError{Fence: f, Newest: newest}) {
		return fmt.Errorf("%s: got %w, want a *NotClaimedError with %v and newest %d", what, orAccepted(err), f, newest)
	}
	return refused(what, err, fencedstore.ErrNotClaimed)
}

func isInvalid(what string, err error, field string) error {
	got, ok := errors.AsType[*fencedstore.InvalidFenceError](err)
	if !ok || got.Field != field {
		return fmt.Errorf("%s: got %w, want an *InvalidFenceError about %s", what, orAccepted(err), field)
	}
	return refused(what, err, fencedstore.ErrInvalidFence)
}

func isUnknown(what string, err error, f fencedstore.Fence) error {
	got, ok := errors.AsType[*fencedstore.UnknownOutcomeError](err)
	if !ok || got.Fence != f || got.Op == "" {
		return fmt.Errorf("%s: got %w, want an *UnknownOutcomeError with %v and what was asked for", what, orAccepted(err), f)
	}
	return refused(what, err, fencedstore.ErrUnknownOutcome)
}

func errorSecrets(ctx context.Context, e Env) error {
	s := e.New()
	if err := accepted("claim 5", s.Claim(ctx, by(bob, 5))); err != nil {
		return err
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	_, notFound := s.Read(ctx, key)
	for what, err := range map[string]error{
		"claim 4":               s.Claim(ctx, by(alice, 4)),
		"write 4":               s.Write(ctx, by(alice, 4), key, []byte("a")),
		"claim 5":               s.Claim(ctx, by(alice, 5)),
		"write 5":               s.Write(ctx, by(alice, 5), key, []byte("a")),
		"write 6":               s.Write(ctx, by(alice, 6), key, []byte("a")),
		"claim 0":               s.Claim(ctx, by(alice, 0)),
		"read what is absent":   notFound,
		"claim, context done":   s.Claim(done, by(alice, 6)),
		"write, context done":   s.Write(done, by(alice, 5), key, []byte("a")),
		"claim, a large holder": s.Claim(ctx, by(strings.Repeat(alice, 5), 6)),
	} {
		if err == nil {
			return fmt.Errorf("%s: got no error", what)
		}
		if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, alice) || strings.Contains(text, bob) {
			return fmt.Errorf("%s: the error shows a holder: %s", what, text)
		}
	}
	return nil
}
