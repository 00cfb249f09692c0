package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/fenced-go/fenced/internal/testenv"
)

// server is a container as a [testenv.Server].
type server struct {
	c    testcontainers.Container
	cli  *testcontainers.DockerClient
	port *testenv.Port
}

func asked(do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	return do(ctx)
}

// Addr implements [testenv.Server].
func (s *server) Addr() string { return s.port.Addr() }

// Start implements [testenv.Server].
func (s *server) Start() error {
	return asked(func(ctx context.Context) error {
		_, err := s.cli.ContainerStart(ctx, s.c.GetContainerID(), client.ContainerStartOptions{})
		return err
	})
}

// Pause implements [testenv.Server]. On a busy machine runc may find a process
// that it cannot freeze in time, and gives up.
func (s *server) Pause() error {
	return asked(func(ctx context.Context) error {
		for {
			_, err := s.cli.ContainerPause(ctx, s.c.GetContainerID(), client.ContainerPauseOptions{})
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "unable to freeze") {
				return err
			}
		}
	})
}

// Resume implements [testenv.Server].
func (s *server) Resume() error {
	return asked(func(ctx context.Context) error {
		_, err := s.cli.ContainerUnpause(ctx, s.c.GetContainerID(), client.ContainerUnpauseOptions{})
		return err
	})
}

// Kill implements [testenv.Server].
func (s *server) Kill() error {
	return asked(func(ctx context.Context) error {
		id := s.c.GetContainerID()
		if _, err := s.cli.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
			return err
		}
		ended := s.cli.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		select {
		case err := <-ended.Error:
			return err
		case <-ended.Result:
			return nil
		}
	})
}

// bridge is the engine's default network, where the containers are.
const bridge = "bridge"

// Disconnect takes the container off its network, with what is published.
func (s *server) Disconnect() error {
	return asked(func(ctx context.Context) error {
		_, err := s.cli.NetworkDisconnect(ctx, bridge, client.NetworkDisconnectOptions{Container: s.c.GetContainerID(), Force: true})
		return err
	})
}

// Connect puts the container back on its network.
func (s *server) Connect() error {
	return asked(func(ctx context.Context) error {
		_, err := s.cli.NetworkConnect(ctx, bridge, client.NetworkConnectOptions{Container: s.c.GetContainerID()})
		return err
	})
}

// Stop implements [testenv.Server].
func (s *server) Stop() error {
	defer s.port.Release()
	return asked(func(ctx context.Context) error {
		return s.c.Terminate(ctx, testcontainers.StopTimeout(0))
	})
}

// Exited implements [testenv.Server]; it is not known.
func (s *server) Exited() <-chan struct{} { return nil }

// Log implements [testenv.Server].
func (s *server) Log() string {
	var text []byte
	err := asked(func(ctx context.Context) error {
		r, err := s.c.Logs(ctx)
		if err != nil {
			return err
		}
		text, err = io.ReadAll(r)
		return errors.Join(err, r.Close())
	})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// recipe is how a service runs in a container.
type recipe struct {
	service, official string
	inside            string // port, as the image exposes it
	line              string // the log line that says it is ready …
	nth               int    // … when it comes for the nth time
	cmd               []string
	run               func(context.Context, string, ...testcontainers.ContainerCustomizer) (testcontainers.Container, error)
}

// start runs a container, published on a port of ours.
func (r recipe) start() (testenv.Server, error) {
	cli, err := engine()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), runWithin)
	defer cancel()
	name, err := image(ctx, cli, r.service, r.official)
	if err != nil {
		return nil, err
	}
	port, err := testenv.NewPort()
	if err != nil {
		return nil, err
	}
	c, err := r.run(ctx, name, testcontainers.WithCmd(r.cmd...), published(r.inside, port),
		testcontainers.WithWaitStrategyAndDeadline(runWithin,
			wait.ForLog(r.line).WithOccurrence(r.nth).WithPollInterval(10*time.Millisecond)))
	s := &server{c: c, cli: cli, port: port}
	switch {
	case err == nil:
		return s, nil
	case strings.Contains(err.Error(), "new reaper"):
		port.Release()
		return nil, fmt.Errorf("%w: no Ryuk, the helper of testcontainers-go: %w; FENCED_TEST_NO_PULL=1 does without", testenv.ErrUnavailable, err)
	case c != nil:
		return nil, errors.Join(err, errors.New(s.Log()), s.Stop())
	}
	port.Release()
	if !has(ctx, cli, name) {
		err = noImage(name, err)
	}
	return nil, err
}

func published(inside string, port *testenv.Port) testcontainers.CustomizeRequestOption {
	return testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) {
		hc.PortBindings = network.PortMap{network.MustParsePort(inside): {{
			HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: strconv.Itoa(port.Number),
		}}}
	})
}
