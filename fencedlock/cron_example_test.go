package fencedlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
)

// unlocker and jobLocker have the shape that schedulers such as gocron ask for.
type unlocker interface {
	Unlock(ctx context.Context) error
}

// jobLocker lets a job run on one host of many.
type jobLocker struct {
	locker *fencedlock.Locker
	opts   fencedlock.AcquireOptions
}

// Lock refuses a job that another host runs, or has just run.
func (j jobLocker) Lock(ctx context.Context, job string) (unlocker, error) {
	k, err := j.locker.TryAcquire(ctx, "job:"+job, &j.opts)
	if err != nil {
		return nil, err
	}
	return jobLock{k}, nil
}

type jobLock struct{ lock *fencedlock.Lock }

func (j jobLock) Unlock(ctx context.Context) error { return j.lock.Release(ctx) }

// A scheduler runs the same job on several hosts, whose clocks differ by some
// seconds. KeepFor keeps the name locked when the job is done sooner than that.
func ExampleAcquireOptions_scheduler() {
	rdb, stop := demo()
	defer stop()
	locker, err := fencedlock.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()
	jobs := jobLocker{locker, fencedlock.AcquireOptions{KeepFor: 30 * time.Second}}

	ctx := context.Background()
	for _, host := range []string{"host a", "host b, a second late"} {
		lock, err := jobs.Lock(ctx, "report")
		if err != nil {
			fmt.Println(host, "does not run it")
			continue
		}
		fmt.Println(host, "runs it:", lock.Unlock(ctx))
	}
	// Output:
	// host a runs it: <nil>
	// host b, a second late does not run it
}

func ExampleLocker_Elect() {
	rdb, stop := demo()
	defer stop()
	locker, err := fencedlock.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()

	ctx, shutDown := context.WithCancel(context.Background())
	err = locker.Elect(ctx, "leader", nil, func(ctx context.Context, f fencedstore.Fence) error {
		fmt.Println("leads", f.Resource)
		shutDown()
		<-ctx.Done()
		return nil
	})
	fmt.Println("ended:", err)
	// Output:
	// leads leader
	// ended: <nil>
}

func ExampleLocker_ForceRelease() {
	rdb, stop := demo()
	defer stop()
	locker, err := fencedlock.New(rdb, &fencedlock.Options{Label: "host a/12"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "invoices", nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	status, err := locker.Inspect(ctx, "invoices")
	fmt.Println(status.Held, status.Label, err)
	fmt.Println(locker.ForceRelease(ctx, "invoices", status.FenceID))
	if lost, ok := errors.AsType[*fencedlock.LostError](lock.Renew(ctx)); ok {
		fmt.Println(lost.Reason)
	}
	// Output:
	// true host a/12 <nil>
	// <nil>
	// released by force
}

func ExampleLocker_Inspect() {
	rdb, stop := demo()
	defer stop()
	locker, err := fencedlock.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()
	status, err := locker.Inspect(context.Background(), "invoices")
	fmt.Println(status, err)
	// Output: "invoices" is free, 0 queued <nil>
}

func ExampleLocker_List() {
	rdb, stop := demo()
	defer stop()
	locker, err := fencedlock.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()
	ctx := context.Background()
	for _, name := range []string{"order:1", "order:2", "user:1"} {
		if _, err := locker.Acquire(ctx, name, nil); err != nil {
			fmt.Println(err)
		}
	}
	for status, err := range locker.List(ctx, "order:") {
		fmt.Println(status.Resource, err)
	}
	// Unordered output:
	// order:1 <nil>
	// order:2 <nil>
}

func ExampleLocker_Acquire() {
	rdb, stop := demo()
	defer stop()
	locker, err := fencedlock.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // bounds the wait
	defer cancel()
	lock, err := locker.Acquire(ctx, "invoices", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Err(), lock.Remaining() > 0, lock.Renew(ctx))
	fmt.Println(lock.Release(ctx), lock.Err())
	fmt.Println(locker.Close())
	// Output:
	// <nil> true <nil>
	// <nil> fencedlock: released
	// <nil>
}

func ExampleLocker_Check() {
	rdb, stop := demo()
	defer stop()
	locker, err := fencedlock.New(rdb, &fencedlock.Options{Strict: fencedlock.Critical})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()
	report, err := locker.Check(context.Background())
	fmt.Println(report.Worst() < fencedlock.Critical, err)
	// Output: true <nil>
}
