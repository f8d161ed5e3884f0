package penstock.tests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol;

/**
 * Spark's own commit of a directory of files, with the named steps of penstock.pipeline.crash_points in it.
 *
 * Between the last file and the manifest that makes it count there is only Java, so the steps there are in Java. What
 * arms a step and what obeys it is said in crash_points.py; `self` is not understood here.
 */
public class StoppableManifestCommit extends ManifestFileCommitProtocol {
    public StoppableManifestCommit(String jobId, String path) {
        super(jobId, path);
    }

    public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext context) {
        FileCommitProtocol.TaskCommitMessage written = super.commitTask(context);
        reached("files.task_written");
        return written;
    }

    public void commitJob(JobContext context, scala.collection.immutable.Seq written) {
        reached("files.before_manifest");
        super.commitJob(context, written);
        reached("files.after_manifest");
    }

    private static void reached(String step) {
        String directory = System.getenv("PENSTOCK_CRASH_POINTS");
        if (directory == null) {
            return;
        }
        Path armed = Paths.get(directory, new String[] {step});
        try {
            String victims = new String(Files.readAllBytes(armed)).trim();
            Files.move(armed, Paths.get(directory, new String[] {step + ".hit"}), new java.nio.file.CopyOption[0]);
            new ProcessBuilder(("kill -9 " + victims).split(" +")).start().waitFor();
        } catch (NoSuchFileException notArmed) {
            return;
        } catch (IOException failure) {
            throw new RuntimeException(failure);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
