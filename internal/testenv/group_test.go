package testenv_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/internal/testenv"
)

func port(t *testing.T, addr string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestClusterRedirectsThroughProxies(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	owners := map[string]bool{}
	for i := range 50 {
		key := fmt.Sprintf("k%d", i)
		_, err := nodes[0].TryDo("SET", key, "v")
		if err == nil {
			owners[nodes[0].Addr()] = true
			continue
		}
		addr := err.Error()[strings.LastIndexByte(err.Error(), ' ')+1:]
		owners[addr] = true
		if got := ask(t, dial(t, addr), "SET "+key+" v"); got != "OK" {
			t.Fatalf("%v leads to %q", err, got)
		}
	}
	for _, addr := range testenv.Addrs(nodes...) {
		if !owners[addr] {
			t.Errorf("no key lives at %s; the owners are %v", addr, owners)
		}
	}
}

func TestSentinelsReplaceADeadMaster(t *testing.T) {
	t.Parallel()
	g := testenv.NewSentinels(t, 2, 3)
	g.Master.Do(t, "SET", "k", "v")
	for _, r := range g.Replicas {
		testenv.Eventually(t, soon, "the replica has the key", func() bool { return r.Do(t, "GET", "k") == "v" })
	}
	g.Master.Kill(t)
	var now string
	testenv.Eventually(t, readyWithin, "a replica is master", func() bool {
		now = fmt.Sprint(g.Sentinels[0].Do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", testenv.SentinelMaster))
		return !strings.Contains(now, port(t, g.Master.Addr()))
	})
	for _, r := range g.Replicas {
		if strings.Contains(now, port(t, r.Addr())) {
			if got := r.Do(t, "GET", "k"); got != "v" {
				t.Errorf("the new master has %v, want v", got)
			}
			return
		}
	}
	t.Errorf("the new master %s is none of %v", now, testenv.Addrs(g.Replicas...))
}

func TestSentinelsReplaceACutMasterThatGoesOn(t *testing.T) {
	t.Parallel()
	g := testenv.NewSentinels(t, 1, 3)
	g.Master.Proxy.Cut()
	testenv.Eventually(t, readyWithin, "the replica is master", func() bool {
		role, err := g.Replicas[0].TryDo("ROLE") // a sentinel breaks connections when it promotes
		return err == nil && strings.Contains(fmt.Sprint(role), "[master ")
	})
	if role := fmt.Sprint(g.Master.Do(t, "ROLE")); !strings.Contains(role, "[master ") {
		t.Errorf("the old master, cut off, must still believe in itself: %s", role)
	}
}
