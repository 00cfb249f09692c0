package storetest

import (
	"bytes"
	"context"
	"strings"
)

func valueCases() []Case {
	return []Case{
		{
			"values-are-exact",
			"A value is kept byte for byte under its key and no other.",
			valuesExact,
		},
		{
			"absent-is-not-found",
			"Read of a key that holds no value is ErrNotFound, and needs no fence.",
			absentNotFound,
		},
		{
			"nil-deletes",
			"A write of nil deletes the key, also when it is absent.",
			nilDeletes,
		},
		{
			"empty-is-a-value",
			"A write of an empty value that is not nil keeps an empty value.",
			emptyIsValue,
		},
		{
			"values-are-copied",
			"The caller may change what it has written and what it has read.",
			valuesCopied,
		},
	}
}

func valuesExact(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := strings.Repeat("\x00\xff0123456789abcd", 1<<12)
	return first(
		accepted("claim 5", s.Claim(ctx, f)),
		accepted("write every byte", s.Write(ctx, f, "k", every)),
		accepted("write 64 KiB", s.Write(ctx, f, "K", []byte(large))),
		accepted("write text", s.Write(ctx, f, "k/k", []byte("text \n"))),
		holds(ctx, s, "k", string(every)),
		holds(ctx, s, "K", large),
		holds(ctx, s, "k/k", "text \n"),
		accepted("write less", s.Write(ctx, f, "K", []byte("x"))),
		holds(ctx, s, "K", "x"),
		holds(ctx, s, "k", string(every)),
	)
}

func absentNotFound(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	return first(
		absent(ctx, s, key),
		accepted("claim 5", s.Claim(ctx, f)),
		absent(ctx, s, key),
		accepted("write 5", s.Write(ctx, f, key, []byte("a"))),
		absent(ctx, s, key+" of another"),
	)
}

func nilDeletes(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	return first(
		accepted("claim 5", s.Claim(ctx, f)),
		accepted("delete what is absent", s.Write(ctx, f, key, nil)),
		absent(ctx, s, key),
		accepted("write", s.Write(ctx, f, key, []byte("a"))),
		accepted("write another key", s.Write(ctx, f, "other", []byte("b"))),
		accepted("delete", s.Write(ctx, f, key, nil)),
		absent(ctx, s, key),
		holds(ctx, s, "other", "b"),
		accepted("delete again", s.Write(ctx, f, key, nil)),
		accepted("write after the delete", s.Write(ctx, f, key, []byte("c"))),
		holds(ctx, s, key, "c"),
	)
}

func emptyIsValue(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	return first(
		accepted("claim 5", s.Claim(ctx, f)),
		accepted("write an empty value", s.Write(ctx, f, key, []byte{})),
		holds(ctx, s, key, ""),
		accepted("write", s.Write(ctx, f, key, []byte("a"))),
		accepted("write an empty value over it", s.Write(ctx, f, key, []byte{})),
		holds(ctx, s, key, ""),
	)
}

func valuesCopied(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	mine := []byte("written")
	if err := first(
		accepted("claim 5", s.Claim(ctx, f)),
		accepted("write", s.Write(ctx, f, key, mine)),
	); err != nil {
		return err
	}
	overwrite(mine)
	got, err := s.Read(ctx, key)
	if err := first(accepted("read", err), holds(ctx, s, key, "written")); err != nil {
		return err
	}
	overwrite(got)
	return holds(ctx, s, key, "written")
}

func overwrite(b []byte) { copy(b, bytes.Repeat([]byte("!"), len(b))) }
