package docker

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"

	"github.com/fenced-go/fenced/internal/testenv"
)

// askWithin bounds what the engine does at once; a pull is bounded apart.
const (
	askWithin = 30 * time.Second
	runWithin = 5 * time.Minute
)

// quiet drops the progress reports of testcontainers-go; errors are returned.
type quiet struct{}

// Printf implements log.Logger.
func (quiet) Printf(string, ...any) {}

// engine connects to the engine once. Every error matches testenv.ErrUnavailable.
var engine = sync.OnceValues(func() (*testcontainers.DockerClient, error) {
	log.SetDefault(quiet{})
	if os.Getenv("FENCED_TEST_NO_PULL") != "" {
		setDefault("TESTCONTAINERS_RYUK_DISABLED", "true") // its image would be pulled
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	cli, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: no Docker engine answers: %w", testenv.ErrUnavailable, err)
	}
	info, err := cli.Client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, fmt.Errorf("%w: no Docker engine answers: %w", testenv.ErrUnavailable, err)
	}
	// testcontainers-go looks for another engine when the one that we were told
	// to use does not answer.
	if told := os.Getenv("DOCKER_HOST"); told != "" && told != cli.DaemonHost() {
		return nil, fmt.Errorf("%w: no Docker engine answers at DOCKER_HOST=%s", testenv.ErrUnavailable, told)
	}
	if err := onThisMachine(cli.DaemonHost(), info.Info.Name); err != nil {
		return nil, err
	}
	// In what looks like a container, testcontainers-go would take the default
	// gateway for the address of published ports.
	setDefault("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	return cli, nil
})

func setDefault(name, value string) {
	if _, set := os.LookupEnv(name); !set {
		_ = os.Setenv(name, value)
	}
}

// onThisMachine refuses an engine whose published ports are not on our 127.0.0.1:
// one behind TCP, or one outside the container that we run in. An engine that
// has the name of this machine is on it.
func onThisMachine(daemon, name string) error {
	if !strings.HasPrefix(daemon, "unix:") && !strings.HasPrefix(daemon, "npipe:") {
		return fmt.Errorf("%w: the Docker engine at %s is not on this machine", testenv.ErrUnavailable, daemon)
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	if _, err := os.Stat("/.dockerenv"); err == nil && host != name {
		return fmt.Errorf("%w: this is a container, and the Docker engine %s is outside of it", testenv.ErrUnavailable, name)
	}
	return nil
}

// image picks the image of a service and says whether it can be had.
func image(ctx context.Context, cli *testcontainers.DockerClient, service, official string) (string, error) {
	name := os.Getenv("FENCED_TEST_" + strings.ToUpper(service) + "_IMAGE")
	if name == "" {
		name = "fenced-test/" + service + ":local"
		if !has(ctx, cli, name) {
			name = official
		}
	}
	if os.Getenv("FENCED_TEST_NO_PULL") != "" && !has(ctx, cli, name) {
		return "", noImage(name, nil)
	}
	return name, nil
}

func has(ctx context.Context, cli *testcontainers.DockerClient, name string) bool {
	_, err := cli.ImageInspect(ctx, name)
	return err == nil
}

func noImage(name string, cause error) error {
	hint := "internal/testenv/images/build.sh makes images without a registry"
	if cause == nil {
		return fmt.Errorf("%w: the engine has no image %s, and FENCED_TEST_NO_PULL is set; %s", testenv.ErrUnavailable, name, hint)
	}
	return fmt.Errorf("%w: no image %s: %w; %s", testenv.ErrUnavailable, name, cause, hint)
}
