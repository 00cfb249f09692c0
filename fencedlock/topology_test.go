package fencedlock_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

func failover(t *testing.T, g *testenv.Sentinels) *redis.Client {
	t.Helper()
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: testenv.SentinelMaster, SentinelAddrs: testenv.Addrs(g.Sentinels...),
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestFailoverKeepsTheLockOrReportsItLost(t *testing.T) {
	t.Parallel()
	g := testenv.NewSentinels(t, 1, 3)
	opts := &fencedlock.Options{TTL: 20 * time.Second, RenewEvery: 200 * time.Millisecond}
	a, b := locker(t, failover(t, g), opts), locker(t, failover(t, g), opts)
	k := acquire(t, a, "r")
	testenv.Eventually(t, patience, "the replica has the lock", func() bool {
		return g.Replicas[0].Do(t, "EXISTS", lockKey) == int64(1)
	})
	g.Master.Kill(t)
	var other *fencedlock.Lock
	renewed := false
	testenv.Eventually(t, 2*patience, "the lock is renewed at the new primary, or taken by another", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if next, err := b.TryAcquire(ctx, "r", nil); err == nil {
			if k.Err() == nil {
				t.Fatal("two hold the lock")
			}
			other = next
			return true
		}
		renewed = k.Renew(ctx) == nil
		return renewed
	})
	t.Logf("kept: %v", renewed)
	if renewed {
		if err := k.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		other = acquire(t, b, "r")
	}
	if other.Fence().ID <= k.Fence().ID {
		t.Errorf("fence %d after %d", other.Fence().ID, k.Fence().ID)
	}
}

func TestSplitBrainIsSettledByTheStore(t *testing.T) {
	t.Parallel()
	g := testenv.NewSentinels(t, 1, 3)
	store := memstore.New()
	opts := &fencedlock.Options{Stores: []fencedstore.Claimer{store}, RenewEvery: 100 * time.Millisecond}
	g.Master.Proxy.Cut() // the old primary is alone with one client
	old := acquire(t, locker(t, client(t, g.Master.DirectAddr()), opts), "r")
	if err := store.Write(t.Context(), old.Fence(), "k", []byte("old")); err != nil {
		t.Fatal(err)
	}
	l := locker(t, failover(t, g), opts)
	var next *fencedlock.Lock
	testenv.Eventually(t, 2*patience, "the other side has a primary and a holder", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		next, err = l.TryAcquire(ctx, "r", nil)
		return err == nil
	})
	if err := old.Renew(t.Context()); err != nil {
		t.Fatalf("the old side does not hold any more, the test shows nothing: %v", err)
	}
	if next.Fence().ID <= old.Fence().ID {
		t.Errorf("fence %d after %d", next.Fence().ID, old.Fence().ID)
	}
	if err := store.Write(t.Context(), old.Fence(), "k", []byte("late")); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("a write of the old side: %v", err)
	}
	if err := store.Write(t.Context(), next.Fence(), "k", []byte("new")); err != nil {
		t.Errorf("a write of the new side: %v", err)
	}
}

func cluster(t *testing.T, nodes []*testenv.Redis, with ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	o := &redis.ClusterOptions{Addrs: testenv.Addrs(nodes...)}
	for _, w := range with {
		w(o)
	}
	rdb := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestClusterLocksEveryName(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	l := locker(t, cluster(t, nodes), nil)
	for _, name := range odd {
		k := acquire(t, l, name)
		if err := k.Renew(t.Context()); err != nil {
			t.Errorf("Renew %q: %v", name, err)
		}
		if s, err := l.Inspect(t.Context(), name); err != nil || s.FenceID != k.Fence().ID {
			t.Errorf("Inspect %q: %v, %v", name, s, err)
		}
		tag := "fenced:{" + strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(name) + "}"
		slot := nodes[0].Do(t, "CLUSTER", "KEYSLOT", tag+":lock")
		for _, key := range []string{":fence", ":queue", ":forced"} {
			if got := nodes[0].Do(t, "CLUSTER", "KEYSLOT", tag+key); got != slot {
				t.Errorf("%s%s is in slot %v, the lock in %v", tag, key, got, slot)
			}
		}
		owners := 0
		for _, n := range nodes {
			if found, _ := n.Do(t, "KEYS", "*").([]any); slices.Contains(found, any(tag+":lock")) {
				owners++
			}
		}
		if owners != 1 {
			t.Errorf("%d nodes have the key %s:lock", owners, tag)
		}
	}
	want := slices.Sorted(slices.Values(odd))
	if got := listed(t, l, ""); !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	k := acquire(t, l, "forced")
	if err := l.ForceRelease(t.Context(), "forced", k.Fence().ID); err != nil {
		t.Errorf("ForceRelease: %v", err)
	}
	if r, err := l.Check(t.Context()); err != nil || r.Nodes != 3 || r.Worst() > fencedlock.Warning {
		t.Errorf("Check: %v, %v", r, err)
	}
	if _, err := l.Acquire(t.Context(), "", nil); !errors.Is(err, fencedlock.ErrInvalidArgument) {
		t.Errorf("the empty name: %v", err)
	}
}

// TestCheckTriesItsRightsOnEveryShard takes a right away on one server at a time.
func TestCheckTriesItsRightsOnEveryShard(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
	}
	login := func(o *redis.ClusterOptions) { o.Username, o.Password = "worker", "secret" }
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "worker", "-pexpire")
		r, err := locker(t, cluster(t, nodes, login), nil).Check(t.Context())
		if err != nil || r.Nodes != 3 {
			t.Fatalf("%v, %v", r, err)
		}
		at := ""
		for _, f := range r.Findings {
			if f.Name == "rights" && f.Severity == fencedlock.Critical {
				at += f.Node
			}
		}
		if at != n.Addr() {
			t.Errorf("rights are missing at %q, want %q: %v", at, n.Addr(), r)
		}
		n.Do(t, "ACL", "SETUSER", "worker", "+pexpire")
	}
}

func TestLockIsKeptWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	l := locker(t, cluster(t, nodes), &fencedlock.Options{RenewEvery: 20 * time.Millisecond})
	k := acquire(t, l, "r")
	from := slices.IndexFunc(nodes, func(n *testenv.Redis) bool {
		found, _ := n.Do(t, "KEYS", lockKey).([]any)
		return len(found) > 0
	})
	to := (from + 1) % len(nodes)
	slot := fmt.Sprint(nodes[0].Do(t, "CLUSTER", "KEYSLOT", lockKey))
	step := func(what string) {
		t.Helper()
		if err := k.Renew(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	testenv.MoveSlot(t, nodes, slot, from, to, step)
	step("after it has moved")
	if nodes[to].Do(t, "EXISTS", lockKey) != int64(1) {
		t.Fatal("the slot has not moved, the test shows nothing")
	}
	if _, err := l.TryAcquire(t.Context(), "r", nil); !errors.Is(err, fencedlock.ErrHeld) {
		t.Errorf("TryAcquire: %v", err)
	}
	if err := k.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	if next := acquire(t, l, "r"); next.Fence().ID <= k.Fence().ID {
		t.Errorf("fence %d after %d", next.Fence().ID, k.Fence().ID)
	}
}

func TestReplicasAreNeverAsked(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	var replicas []*testenv.Redis
	for i := range nodes {
		replicas = append(replicas, testenv.AddReplica(t, nodes, i))
	}
	for name, with := range map[string]func(*redis.ClusterOptions){
		"RouteByLatency": func(o *redis.ClusterOptions) { o.RouteByLatency = true },
		"RouteRandomly":  func(o *redis.ClusterOptions) { o.RouteRandomly = true },
		"ReadOnly":       func(o *redis.ClusterOptions) { o.ReadOnly = true },
	} {
		l := locker(t, cluster(t, nodes, with), &fencedlock.Options{Durability: fencedlock.Durability{Replicas: 1}})
		for i := range 34 {
			resource := fmt.Sprint(name, i)
			k := acquireReplicated(t, l, resource)
			if err := k.Renew(t.Context()); err != nil {
				t.Errorf("%s: Renew: %v", name, err)
			}
			if s, err := l.Inspect(t.Context(), resource); err != nil || s.FenceID != k.Fence().ID {
				t.Errorf("%s: Inspect: %v, %v", name, s, err)
			}
			if err := k.Release(t.Context()); err != nil {
				t.Errorf("%s: Release: %v", name, err)
			}
		}
	}
	for i, r := range replicas {
		stats := fmt.Sprint(r.Do(t, "INFO", "commandstats"))
		if strings.Contains(stats, "cmdstat_eval") {
			t.Errorf("replica %d was asked: %s", i, stats)
		}
		if !strings.Contains(stats, "cmdstat_set") { // by its primary
			t.Errorf("replica %d replicates nothing, the test shows nothing: %s", i, stats)
		}
	}
}

func TestNameOfTheClientIsKept(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	rdb := client(t, srv.Addr(), func(o *redis.Options) { o.ClientName = "billing" })
	acquire(t, locker(t, rdb, nil), "r")
	if list := fmt.Sprint(srv.Do(t, "CLIENT", "LIST")); !strings.Contains(list, "name=billing") || !strings.Contains(list, "cmd=evalsha") && !strings.Contains(list, "cmd=eval") {
		t.Errorf("clients: %s", list)
	}
}

// secured puts TLS before addr, with a certificate of its own.
func secured(t *testing.T, addr string) (string, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	plain, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := tls.NewListener(plain, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { relay(t, c, addr) })
		}
	})
	t.Cleanup(func() { _ = ln.Close() })
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return ln.Addr().String(), pool
}

func relay(t *testing.T, c net.Conn, addr string) {
	t.Helper()
	defer func() { _ = c.Close() }()
	up, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	go func() { _, _ = io.Copy(up, c); _ = up.Close() }()
	_, _ = io.Copy(c, up)
}

func TestLocksWorkOverTLS(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	addr, pool := secured(t, srv.DirectAddr())
	trusting := func(o *redis.Options) { o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool} }
	k := acquire(t, locker(t, client(t, addr, trusting), nil), "r")
	if err := k.Renew(t.Context()); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if err := k.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	wary := func(o *redis.Options) { o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13} }
	if _, err := locker(t, client(t, addr, wary), nil).TryAcquire(t.Context(), "r", nil); !errors.Is(err, fencedlock.ErrUnavailable) {
		t.Errorf("an unknown certificate: %v", err)
	}
}

// documented is the line of docs/operations.md that makes a user, with what its
// placeholders stand for put in.
func documented(t *testing.T, user, name, password, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ *ACL SETUSER ` + user + ` .*$`).FindString(string(text))
	if line == "" {
		t.Fatalf("no line makes the user %s", user)
	}
	args := strings.Fields(line)
	for i, a := range args {
		switch {
		case a == user:
			args[i] = name
		case strings.HasPrefix(a, ">"):
			args[i] = ">" + password
		default:
			args[i] = strings.ReplaceAll(a, "fenced:*", pattern)
		}
	}
	return args
}

func TestDocumentedOperatorMayInspectListForceAndCheck(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t, "--appendonly", "yes")
	srv.Do(t, documented(t, "operator", "operator", "secret", "fenced:*")...)
	login := func(o *redis.Options) { o.Username, o.Password = "operator", "secret" }
	l := locker(t, client(t, srv.Addr(), login), nil)
	k := acquire(t, l, "r")
	if got := listed(t, l, ""); len(got) != 1 {
		t.Errorf("listed %q", got)
	}
	if err := l.ForceRelease(t.Context(), "r", k.Fence().ID); err != nil {
		t.Errorf("ForceRelease: %v", err)
	}
	if r, err := l.Check(t.Context()); err != nil || len(r.Findings) > 0 {
		t.Errorf("Check: %v, %v", r, err)
	}
}
