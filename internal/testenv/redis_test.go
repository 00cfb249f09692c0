package testenv_test

import (
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
)

const soon = 20 * time.Second

func TestRedisStartsEmptyAndApart(t *testing.T) {
	t.Parallel()
	a, b := testenv.NewRedis(t), testenv.NewRedis(t)
	a.Do(t, "SET", "k", "v")
	if got := b.Do(t, "GET", "k"); got != nil {
		t.Errorf("the second server has the first one's key: %v", got)
	}
	if a.Addr() == b.Addr() || a.DirectAddr() == b.DirectAddr() || a.Addr() == a.DirectAddr() {
		t.Errorf("addresses are not four: %s %s %s %s", a.Addr(), b.Addr(), a.DirectAddr(), b.DirectAddr())
	}
}

func TestRedisRepliesKeepTheirKind(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	for _, c := range []struct {
		script string
		want   any
	}{
		{"return 'a b\\r\\nc'", "a b\r\nc"},
		{"return redis.status_reply('FINE')", "FINE"},
		{"return 7", int64(7)},
		{"return false", nil},
		{"return ''", ""},
	} {
		if got := r.Do(t, "EVAL", c.script, "0"); got != c.want {
			t.Errorf("%s: got %#v, want %#v", c.script, got, c.want)
		}
	}
	list, ok := r.Do(t, "EVAL", "return {1,{'x'},{}}", "0").([]any)
	if !ok || len(list) != 3 || list[0] != int64(1) {
		t.Errorf("nested list: got %#v", list)
	}
	if _, err := r.TryDo("EVAL", "return redis.error_reply('NO way')", "0"); err == nil || err.Error() != "NO way" {
		t.Errorf("error reply: got %v", err)
	}
}

func TestKilledRedisComesBackWithItsAppendOnlyFile(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	addr := r.Addr()
	r.Do(t, "SET", "k", "v")
	r.Kill(t)
	if _, err := r.TryDo("PING"); err == nil {
		t.Fatal("a killed server answers")
	}
	r.Start(t)
	if got := r.Do(t, "GET", "k"); got != "v" {
		t.Errorf("after the restart: got %v, want v", got)
	}
	if r.Addr() != addr {
		t.Errorf("the address moved from %s to %s", addr, r.Addr())
	}
	if got := ask(t, dial(t, addr), "GET k"); got != "v" {
		t.Errorf("through the proxy: got %q, want v", got)
	}
}

func TestKilledRedisForgetsWithoutPersistence(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	r.Do(t, "SET", "k", "v")
	r.Kill(t)
	r.Start(t)
	if got := r.Do(t, "GET", "k"); got != nil {
		t.Errorf("got %v, want nothing", got)
	}
}

func TestPausedRedisKeepsConnectionsAndAnswersLater(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	c := dial(t, r.Addr())
	ask(t, c, "PING")
	r.Pause(t)
	send(t, c, "PING")
	silent(t, c)
	r.Resume(t)
	if got := receive(t, c); got != "PONG" {
		t.Errorf("after the pause: got %q, want PONG", got)
	}
	r.Pause(t)
	r.Kill(t) // a paused server can be killed
	r.Start(t)
}
