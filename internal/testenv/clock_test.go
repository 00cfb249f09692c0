package testenv_test

import (
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
)

func TestClockStepsForwardAndBack(t *testing.T) {
	t.Parallel()
	c := testenv.NewClock(t)
	r := testenv.NewRedisWithClock(t, c)
	r.Do(t, "SET", "k", "v", "PX", "60000")
	c.Set(t, 2*time.Minute)
	if got := r.Do(t, "GET", "k"); got != nil {
		t.Errorf("after two minutes forward: got %v, want it to have expired", got)
	}
	r.Do(t, "SET", "k", "v", "PX", "60000")
	c.Set(t, -2*time.Minute)
	if ttl, _ := r.Do(t, "PTTL", "k").(int64); ttl < 200_000 {
		t.Errorf("after four minutes back: %d ms are left, want about 300000", ttl)
	}
	c.Set(t, 0)
	if got := ask(t, dial(t, r.Addr()), "EXISTS k"); got != "1" {
		t.Errorf("through the proxy: got %s, want 1", got)
	}
}
