package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// minDriver is the first NVIDIA driver that runs CUDA 13, which libtorch's wheel is built for.
const minDriver = 580

// gpus asks the driver. A machine without GPU (no NVML library) is one plain line, not an error.
func gpus(lib nvml.Interface, root string) (f Findings) {
	// go-nvml panics when a symbol is missing in an old driver's library; the report must go on.
	defer func() {
		if r := recover(); r != nil {
			f = append(f, Finding{areaGPU, Note, fmt.Sprintf("the driver's NVML is not usable: %v", r), ""})
		}
	}()
	if ret := lib.Init(); ret != nvml.SUCCESS {
		if ret == nvml.ERROR_LIBRARY_NOT_FOUND {
			return Findings{{areaGPU, OK, "none (no NVIDIA driver); training runs on the CPU", ""}}
		}
		return Findings{{areaGPU, Note, "the NVIDIA driver does not answer: " + errorText(lib, ret), "nvidia-smi"}}
	}
	defer lib.Shutdown()

	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return Findings{{areaGPU, Note, "cannot count the GPUs: " + errorText(lib, ret), "nvidia-smi"}}
	}
	if n == 0 {
		return Findings{{areaGPU, OK, "none (driver present); training runs on the CPU", ""}}
	}
	driver, _ := lib.SystemGetDriverVersion()
	f = append(f, driverFinding(n, driver))
	for i := range n {
		f = append(f, oneGPU(lib, i))
	}
	plugin := filepath.Join(root, "build/native/libseadnative_cuda.so")
	if _, err := os.Stat(plugin); err != nil {
		f = append(f, Finding{areaGPU, Missing, "the CUDA plugin is not built (" + plugin + ")", "make cuda"})
	}
	return f
}

func driverFinding(n int, driver string) Finding {
	detail := fmt.Sprintf("%d found, driver %s", n, driver)
	major := 0
	fmt.Sscanf(driver, "%d", &major)
	if major < minDriver {
		return Finding{areaGPU, Missing, fmt.Sprintf("%s: libtorch's CUDA 13 needs driver %d or newer", detail, minDriver),
			fmt.Sprintf("install driver %d or newer, or build with LIBTORCH=folder of a libtorch for your CUDA", minDriver)}
	}
	return Finding{areaGPU, OK, detail, ""}
}

func oneGPU(lib nvml.Interface, i int) Finding {
	device, ret := lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		return Finding{areaGPU, Note, fmt.Sprintf("%d: %s", i, errorText(lib, ret)), ""}
	}
	var parts []string
	if name, ret := device.GetName(); ret == nvml.SUCCESS {
		parts = append(parts, name)
	}
	if m, ret := device.GetMemoryInfo(); ret == nvml.SUCCESS {
		parts = append(parts, fmt.Sprintf("%s, %s in use", gib(int64(m.Total)), gib(int64(m.Used))))
	}
	level := OK
	if major, minor, ret := device.GetCudaComputeCapability(); ret == nvml.SUCCESS {
		parts = append(parts, fmt.Sprintf("compute %d.%d", major, minor))
		if major < 8 {
			level = Note
			parts = append(parts, "older than A100: no bf16 tensor cores, no flash attention")
		}
	}
	return Finding{areaGPU, level, fmt.Sprintf("%d: %s", i, strings.Join(parts, ", ")), ""}
}

func errorText(lib nvml.Interface, ret nvml.Return) string {
	if text := lib.ErrorString(ret); text != "" {
		return text
	}
	return fmt.Sprintf("NVML error %d", int(ret))
}
